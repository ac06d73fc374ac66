from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.db import transaction

from benchmarks.load.compaction import compact_now
from runs.records.deltas import delta
from runs.records.metrics import erase
from runs.records.metrics.bulk import RunGone
from runs.records.metrics.codec import Columns
from runs.records.metrics.models import Axis, Block, Level, Segment, Telemetry
from runs.records.points import store
from runs.records.points.charts.series import raw
from runs.records.points.compaction import sealing
from runs.records.points.compaction.compactor import Compactor
from runs.records.points.compaction.sealing import fold_blocks, seal
from tests.series import write_points

pytestmark = pytest.mark.django_db(databases="__all__")

NAMES = ("a", "b", "c")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Writer:
    """A run whose series are logged together."""

    def __init__(self, run_id: str = "run1") -> None:
        self.run_id = run_id
        self.cursor = 0
        self.step = 0

    def write(self, count: int, names: tuple[str, ...] = NAMES) -> int:
        steps = np.arange(self.step, self.step + count)
        self.step += count
        self.cursor += 1
        times = 1e9 + steps * 0.25
        pieces = [store.SeriesPiece("p", 1, name, {}, Columns(steps, times, steps * 2.0)) for name in names]
        write_points(self.run_id, attempt=1, cursor=self.cursor, pieces=pieces)
        Telemetry.objects.update_or_create(run_id=self.run_id, defaults={"cursor": self.cursor})
        return count * len(names)

    def steps(self, name: str = "a") -> list[int]:
        return [step for curve in raw(self.run_id, [name]) for step in curve.columns["step"].tolist()]


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def work(compactor: Compactor) -> int:
    slices = 0
    while compactor.slice(0.0):
        slices += 1
        assert slices < 100, "it never ends"
    return slices


def test_a_run_that_fell_silent_becomes_segments_that_share_their_axes(writer: Writer, clock: Clock) -> None:
    compactor = Compactor(clock=clock)
    for _ in range(3):
        compactor.record("run1", writer.cursor + 1, writer.write(10))
    assert not compactor.slice(1.0)
    clock.now += 31
    assert work(compactor)
    assert not Block.objects.exists()
    assert Segment.objects.count() == 3
    assert Axis.objects.count() == 1
    assert writer.steps() == list(range(30))
    assert Telemetry.objects.get().compacted_cursor == 3


def test_what_is_young_stays_for_clients_that_catch_up(writer: Writer, clock: Clock) -> None:
    compactor = Compactor(clock=clock)
    for _ in range(70):
        compactor.record("run1", writer.cursor + 1, writer.write(2))
        clock.now += 0.1
    assert work(compactor)
    bound = Telemetry.objects.get().compacted_cursor
    assert 0 < bound <= 30
    assert set(Block.objects.values_list("cursor", flat=True)) == set(range(bound + 1, 71))
    assert delta.delta_since("run1", bound - 1).refetch
    assert [column["step"] for column in delta.delta_since("run1", 69).series] == [[138, 139]] * 3
    assert writer.steps() == list(range(140))


def test_full_segments_are_sealed_and_what_is_left_waits(writer: Writer) -> None:
    for _ in range(11):
        writer.write(2000)
    compact_now()
    sealed = Segment.objects.filter(is_sealed=True)
    assert {row.count for row in sealed} == {16_384}
    assert {row.count for row in Segment.objects.filter(is_sealed=False)} == {22_000 - 16_384}
    assert Axis.objects.count() == 2
    assert writer.steps("b") == list(range(22_000))
    levels = set(Level.objects.values_list("series_id", "level"))
    assert levels == {(row.series_id, 6) for row in sealed}, "of a level with so few buckets nothing coarser is needed"


def test_a_large_segment_in_order_is_sealed_as_it_lies(writer: Writer) -> None:
    writer.write(16_384)
    writer.write(10_000)
    before = list(Segment.objects.order_by("pk").values_list("pk", "data"))
    compact_now()
    assert list(Segment.objects.order_by("pk").values_list("pk", "data")) == before
    assert all(row.is_sealed and row.base == 6 for row in Segment.objects.all())


def test_a_slow_series_ends_as_full_segments_and_each_point_is_written_a_few_times(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "POINTS_PER_SEGMENT", 512)
    monkeypatch.setattr(sealing, "SEAL_AS_IT_LIES", 256)
    written = 0
    encode = sealing.encode_segments

    def counted(run_id: str, ready: Any) -> Any:
        nonlocal written
        ready = list(ready)
        written += sum(stretch.columns.size for _, stretch, _ in ready)
        return encode(run_id, ready)

    monkeypatch.setattr(sealing, "encode_segments", counted)
    for _ in range(120):
        writer.write(16, ("a",))
        fold_blocks("run1", writer.cursor)
        seal("run1", writer.cursor, is_quiet=False)
        assert Segment.objects.filter(is_sealed=False).count() <= 8
    assert {row.count >= 256 for row in Segment.objects.filter(is_sealed=True)} == {True}
    assert written <= 8 * 120 * 16
    assert writer.steps() == list(range(1920))


def test_work_that_waited_is_found_after_a_restart(writer: Writer, clock: Clock) -> None:
    writer.write(5)
    other = Writer("run2")
    for _ in range(3):
        other.write(3000)
    compactor = Compactor(clock=clock)
    assert not compactor.slice(1.0)
    clock.now += 31
    assert work(compactor)
    assert not Block.objects.exists()
    assert other.steps() == list(range(9000))
    assert Segment.objects.filter(series__run_id="run2", is_sealed=True).count() == 3
    fresh = Compactor(clock=clock)
    clock.now += 62
    assert not fresh.slice(1.0), "nothing waits"


def test_runs_of_other_shards_are_left_alone(writer: Writer, clock: Clock) -> None:
    writer.write(5)
    compactor = Compactor(is_mine=lambda run_id: run_id != "run1", clock=clock)
    assert not compactor.slice(1.0)
    clock.now += 31
    assert not compactor.slice(1.0)
    assert Block.objects.exists()


def test_a_run_that_is_deleted_meanwhile_ends_its_compaction(writer: Writer, clock: Clock) -> None:
    compactor = Compactor(clock=clock)
    compactor.record("run1", 1, writer.write(5))
    erase.delete_run_data("run1")
    clock.now += 31
    assert work(compactor) == 1
    assert not Segment.objects.exists()


class Killed(BaseException):
    """What a SIGKILL would be."""


@pytest.mark.parametrize("place", ["_delete_segments", "_seal", "execute"])
def test_who_is_killed_in_the_middle_leaves_what_was_before(
    writer: Writer, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for count in (3000, 16_384, 5, 3000, 12_000):
        writer.write(count)

    def killed(*_: object) -> int:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(sealing, place, killed)
        with pytest.raises(Killed), transaction.atomic(using=settings.METRICS_DATABASE):
            compact_now()
    assert writer.steps() == list(range(34_389))
    assert not Segment.objects.filter(is_sealed=True).exists()
    compact_now()
    assert writer.steps() == list(range(34_389))


def test_rows_that_are_gone_stop_a_step(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.write(5)
    monkeypatch.setattr(sealing, "_delete_segments", lambda units: -1)
    with pytest.raises(RunGone):
        fold_blocks("run1", 1)
    assert Block.objects.count() == 1


@pytest.fixture(autouse=True)
def no_axis_is_left_over() -> Iterator[None]:
    yield
    assert not Axis.objects.filter(segments=None).exists()
