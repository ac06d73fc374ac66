from __future__ import annotations

import pytest

from runs.ingest.commit import Source, commit
from runs.ingest.validation.records import incoming
from runs.records.logs.read import BadCursor, read_log_text, read_logs
from tests.spools import Spool

pytestmark = pytest.mark.django_db(databases="__all__")


def store(*texts: tuple[float, str], rank: int = 0, stream: str = "stdout", spool: Spool | None = None) -> None:
    frame = (spool or Spool()).logs(list(texts), rank, stream)
    commit("run1", fence=1, source=Source("node1", "node-a"), batch=incoming(frame))


def texts(page: dict[str, object]) -> list[str]:
    return [item["text"] for item in page["items"]]  # type: ignore[attr-defined]


def pages(limit: int, **query: object) -> list[str]:
    """Everything that following ``next`` gives."""
    found: list[str] = []
    page = read_logs("run1", limit=limit, **query)  # type: ignore[arg-type]
    found += texts(page)
    while page["next"]:
        page = read_logs("run1", limit=limit, after=page["next"], **query)  # type: ignore[arg-type]
        found += texts(page)
    return found


def test_lines_of_all_ranks_come_by_time() -> None:
    store((1.0, "a"), (3.0, "c"), (5.0, "e"), rank=0)
    store((2.0, "b"), (4.0, "d"), rank=1, stream="stderr")
    page = read_logs("run1")
    assert texts(page) == ["a", "b", "c", "d", "e"]
    assert page["items"][1] == {
        "id": "a1.r1.e.0", "rank": 1, "stream": "stderr", "attempt": 1, "time": 2.0, "level": "", "text": "b",
    }  # fmt: skip
    assert page["next"] is None


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_put_together_are_the_whole(limit: int) -> None:
    spools = [Spool(), Spool()]
    for start in range(0, 30, 3):
        for rank, spool in enumerate(spools):
            store(*((start + i + rank / 2, f"{start + i}.{rank}") for i in range(3)), rank=rank, spool=spool)
    assert pages(limit) == [f"{second}.{rank}" for second in range(30) for rank in (0, 1)]


def test_who_follows_gets_lines_that_came_late_once() -> None:
    store((1.0, "a"), (5.0, "b"))
    page = read_logs("run1")
    assert texts(read_logs("run1", after=page["cursor"])) == []
    store((2.0, "late"), rank=1)
    page = read_logs("run1", after=page["cursor"])
    assert texts(page) == ["late"]
    assert texts(read_logs("run1", after=page["cursor"])) == []


@pytest.mark.parametrize("at", [1e12, 1e300, -1e13])
def test_a_time_that_no_calendar_has_does_not_end_the_text_of_the_log(at: float) -> None:
    store((0.0, "a"), (at, "b"))
    store((2.0, "c"), rank=1)
    found = sorted(line.partition(": ")[2] for line in read_log_text("run1"))
    assert found == ["a\n", "b\n", "c\n"]
    assert any(line.startswith(f"{at} rank 0") for line in read_log_text("run1"))


def test_what_is_committed_while_one_pages_comes_at_the_end() -> None:
    store((1.0, "a"), (2.0, "b"))
    first = read_logs("run1", limit=1)
    store((0.5, "late"), rank=1)
    second = read_logs("run1", limit=1, after=first["next"])
    third = read_logs("run1", limit=1, after=second["next"])
    assert [texts(page) for page in (first, second, third)] == [["a"], ["b"], ["late"]]
    assert third["next"] is None


def test_search_finds_any_case_and_rank_chooses() -> None:
    store((1.0, "CUDA out of Memory"), (2.0, "fine"))
    store((1.5, "memory again"), rank=1)
    assert texts(read_logs("run1", q="memORY")) == ["CUDA out of Memory", "memory again"]
    assert texts(read_logs("run1", q="memory", rank=1)) == ["memory again"]
    assert pages(1, q="memory") == ["CUDA out of Memory", "memory again"]


def test_the_tail_is_the_last_lines_in_their_order() -> None:
    store(*((float(second), f"{second}") for second in range(2500)))
    store((2498.5, "between"), rank=1)
    page = read_logs("run1", tail=True, limit=3)
    assert texts(page) == ["2498", "between", "2499"]
    assert texts(read_logs("run1", after=page["cursor"])) == []


def test_a_clock_that_goes_back_does_not_turn_lines_round() -> None:
    store((10.0, "first"), (3.0, "second"), (11.0, "third"))
    assert pages(1) == ["first", "second", "third"]
    assert texts(read_logs("run1", tail=True, limit=2)) == ["second", "third"]


def test_the_download_has_every_line() -> None:
    store((1.5, "a\u2028b"), (2.0, "\x1b[31mred"))
    assert list(read_log_text("run1")) == [
        "1970-01-01T00:00:01.500+00:00 rank 0 stdout: a\u2028b\n",
        "1970-01-01T00:00:02.000+00:00 rank 0 stdout: \x1b[31mred\n",
    ]


@pytest.mark.parametrize("cursor", ["x", "W10", "WzEsMl0", "bnVsbA", "\u0660"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor):
        read_logs("run1", after=cursor)
