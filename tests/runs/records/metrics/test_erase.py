from __future__ import annotations

import numpy as np
import pytest
from django.db import connections

from benchmarks.load.compaction import compact_now
from runs.records.metrics import erase
from runs.records.metrics.codec import Columns
from runs.records.metrics.models import (
    Axis,
    Block,
    Checkpoint,
    CheckpointUse,
    DeadLetter,
    Erasure,
    Level,
    LogChunk,
    Media,
    Producer,
    Segment,
    Series,
    Telemetry,
)
from runs.records.points import read, store
from tests.series import series_data, write_points

pytestmark = pytest.mark.django_db(databases="__all__")

EVERYTHING = (
    Axis, Block, Checkpoint, CheckpointUse, DeadLetter, Erasure, Level, LogChunk, Media, Producer, Segment, Series,
    Telemetry,
)  # fmt: skip


def fill(run_id: str, count: int = 40_000) -> None:
    steps = np.arange(count)
    columns = Columns(steps, steps / 4, np.random.default_rng(0).normal(0, 1, count))
    pieces = [store.SeriesPiece("p", 1, name, {}, columns) for name in ("a", "b")]
    write_points(run_id, attempt=1, cursor=1, pieces=pieces)
    write_points(run_id, attempt=1, cursor=2, pieces=[store.SeriesPiece("p", 1, "c", {}, columns.part(0, 5))])
    store.write_lines(run_id, attempt=1, cursor=2, lines=[store.StreamLines(0, "stdout", [(1.0, "x")])])
    Checkpoint.objects.create(run_id=run_id, step=100, fence=1, at=1.0)
    CheckpointUse.objects.create(run_id=run_id, attempt=1, state="off", at=1.0)
    Media.objects.create(run_id=run_id, kind="text", step=1, time=1.0, attempt=1, cursor=2, size=1, data=b"x")
    Telemetry.objects.create(run_id=run_id, cursor=2)


def left() -> dict[str, int]:
    return {model.__name__: number for model in EVERYTHING if (number := model._default_manager.count())}


def test_a_small_run_is_gone_at_once() -> None:
    fill("run1")
    compact_now()
    fill("run2")
    kept = Segment.objects.filter(series__run_id="run2").count()
    erase.delete_run_data("run1")
    assert set(Series.objects.values_list("run_id", flat=True)) == {"run2"}
    assert not Level.objects.exists()
    assert Segment.objects.count() == kept
    erase.delete_run_data("run2")
    assert left() == {}


def test_a_large_run_is_out_of_sight_at_once_and_goes_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    fill("run1")
    compact_now()
    monkeypatch.setattr(erase, "AT_ONCE_S", 0.0)
    monkeypatch.setattr(erase, "ROWS", 1)
    erase.delete_run_data("run1")
    assert Segment.objects.exists()
    assert read.series_list("run1") == []
    assert series_data("run1", []) == {"cursor": 0, "series": []}
    assert read.sparklines(["run1"], "a", 10) == {}
    numbers = []
    while erase.sweep(0.0):
        numbers.append(sum(left().values()))
    assert len(numbers) > 5
    assert numbers == sorted(numbers, reverse=True)
    assert left() == {}


def test_what_comes_late_is_deleted_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erase, "AT_ONCE_S", 0.0)
    monkeypatch.setattr(erase, "ROWS", 1)
    fill("run1", 10)
    erase.delete_run_data("run1")
    fill("run1", 20_000)
    erase.delete_run_data("run1")
    assert read.series_list("run1") == []
    while erase.sweep(0.0):
        pass
    assert left() == {}


def test_nothing_to_sweep_is_nothing() -> None:
    fill("run1", 10)
    assert not erase.sweep(1.0)
    assert Series.objects.count() == 3


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_the_disk_gets_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connections["metrics" if "metrics" in connections.databases else "default"]
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL's autovacuum does that")
    monkeypatch.setattr(erase, "FREE_PAGES", 20)
    fill("run1")

    def pages() -> int:
        with connection.cursor() as cursor:
            return int(cursor.execute("PRAGMA page_count").fetchone()[0])

    before = pages()
    erase.delete_run_data("run1")
    while erase.sweep(0.0):
        pass
    assert pages() < before - 100
