"""Small chunks are put together, and nobody notices."""

from __future__ import annotations

import pytest

from runs.records.logs import compaction as log_folding
from runs.records.logs.chunks import LINES_PER_CHUNK
from runs.records.logs.compaction import FEW, fold_lines
from runs.records.logs.read import read_log_text
from runs.records.metrics.bulk import RunGone
from runs.records.metrics.models import LogChunk, LogStream, Telemetry
from runs.records.points import store
from runs.records.points.compaction.compactor import Compactor

pytestmark = pytest.mark.django_db(databases="__all__")


def write(cursor: int, count: int = 10, rank: int = 0, text: str = "line") -> None:
    first = LogStream.objects.filter(rank=rank).values_list("num_lines", flat=True).first() or 0
    lines = [(float(first + number), f"{text} {first + number}") for number in range(count)]
    store.write_lines("run1", attempt=1, cursor=cursor, lines=[store.StreamLines(rank, "stdout", lines)])
    Telemetry.objects.update_or_create(run_id="run1", defaults={"cursor": cursor})


def everything() -> list[str]:
    return list(read_log_text("run1"))


def fold(bound: int, *, is_quiet: bool) -> int:
    for number in range(1000):
        if not fold_lines("run1", bound, is_quiet=is_quiet):
            return number
    raise AssertionError("it never ends")


def test_chunks_of_a_few_lines_become_one_of_thousands() -> None:
    for cursor in range(1, 601):
        write(cursor)
    before = everything()
    assert fold(600, is_quiet=True)
    assert list(LogChunk.objects.order_by("first_line").values_list("first_line", "num_lines", "cursor")) == [
        (0, 4090, 409), (4090, 1910, 600)
    ]  # fmt: skip
    assert everything() == before


def test_while_more_comes_few_wait_and_each_line_is_written_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    together = log_folding._together

    def counted(run_id: str, group: list[log_folding._Chunk]) -> object:
        nonlocal written
        written += sum(chunk.num_lines for chunk in group)
        return together(run_id, group)

    monkeypatch.setattr(log_folding, "_together", counted)
    for cursor in range(1, 401):
        write(cursor, 5)
        fold(cursor, is_quiet=False)
        assert LogChunk.objects.count() < 4 * FEW
    assert written < 8 * 2000
    assert len(everything()) == 2000


def test_what_is_young_stays_as_it_came() -> None:
    for cursor in range(1, 41):
        write(cursor)
    fold(30, is_quiet=True)
    assert sorted(LogChunk.objects.values_list("cursor", flat=True)) == [30, *range(31, 41)]


def test_small_chunks_between_large_ones_wait_for_nothing_and_hold_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_folding, "ROWS_PER_STEP", 3)
    for cursor in range(1, 11, 2):
        write(cursor)
        write(cursor + 1, 3000)
    assert log_folding.waiting() == []
    for cursor in range(11, 16):
        write(cursor, rank=0)
        write(cursor, rank=1)
    assert log_folding.waiting() == ["run1"]
    before = everything()
    assert fold(15, is_quiet=True)
    assert (
        LogChunk.objects.filter(stream__rank=0).count() == 11 and LogChunk.objects.filter(stream__rank=1).count() == 1
    )
    assert log_folding.waiting() == [] and everything() == before


def test_full_chunks_and_large_texts_are_left_alone() -> None:
    write(1, LINES_PER_CHUNK)
    write(2, 4, text="x" * 100_000)
    write(3, 4, text="x" * 100_000)
    assert not fold_lines("run1", 3, is_quiet=True)


def test_chunks_of_other_streams_are_not_mixed() -> None:
    for cursor in range(1, 21):
        write(cursor, rank=cursor % 2)
    before = everything()
    fold(20, is_quiet=True)
    assert LogChunk.objects.count() == 2
    assert everything() == before


def test_the_compactor_finds_lines_that_wait_after_a_restart() -> None:
    for cursor in range(1, 5):
        write(cursor)
    now = [1000.0]
    compactor = Compactor(clock=lambda: now[0])
    assert not compactor.slice(1.0)
    now[0] += 31
    assert compactor.slice(1.0)
    assert LogChunk.objects.count() == 1
    now[0] += 62
    assert not Compactor(clock=lambda: now[0]).slice(1.0), "nothing waits"


def test_rows_that_are_gone_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    write(1)
    write(2)
    monkeypatch.setattr(log_folding, "delete_rows", lambda model, ids: 0)
    with pytest.raises(RunGone):
        fold_lines("run1", 2, is_quiet=True)
    assert LogChunk.objects.count() == 2


def test_a_reader_goes_on_when_chunks_move_below_it() -> None:
    for cursor in range(1, 31):
        write(cursor, 3)
        write(cursor, 3, rank=1)
    before = everything()
    lines = read_log_text("run1")
    found = [next(lines) for _ in range(17)]
    fold(30, is_quiet=True)
    assert found + list(lines) == before
