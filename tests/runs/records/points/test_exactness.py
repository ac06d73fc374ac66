"""Any points, written in any batches and compacted at any moment, read back exactly once, and each bucket of a chart is
what numpy makes of its points."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.load.compaction import compact_run
from runs.records.metrics.codec import Columns
from runs.records.metrics.models import Axis as AxisRow
from runs.records.metrics.models import Block, Level, Segment, Series, Telemetry
from runs.records.points import segments, store
from runs.records.points.charts.series import Attempts, Axis, Curve, curves, raw
from runs.records.points.compaction import levels, pyramid, sealing
from runs.records.points.read import series_list
from tests.series import write_points

pytestmark = pytest.mark.django_db(databases="__all__")

SIZES = (
    (store, "DIRECT", 4),
    (segments, "POINTS_PER_SEGMENT", 8),
    (sealing, "POINTS_PER_SEGMENT", 8),
    (sealing, "SEAL_AS_IT_LIES", 4),
    (sealing, "POINTS_PER_STEP", 24),
    (pyramid, "PER_BUCKET", 2),
    (pyramid, "TOP_BUCKETS", 4),
    (levels, "BUCKETS_PER_ROW", 4),
)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module, name, size in SIZES:
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr("runs.records.points.charts.zoom.POINTS_PER_SEGMENT", 8)
    monkeypatch.setattr("runs.records.points.charts.series.SEGMENTS_AT_ONCE", 2)
    yield


near = st.integers(-40, 300)
huge = st.sampled_from([-(2**63), -(2**62), -1, 0, 1, 2**40, 2**63 - 1])
value = st.one_of(
    st.floats(-1e6, 1e6, width=32),
    st.floats(-1e200, 1e200),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 1e-300]),
)


@dataclass(frozen=True)
class Batch:
    """Points of one commit, or (without points) a compaction up to so many commits ago."""

    attempt: int
    name: str
    steps: list[int]
    offsets: list[float]
    values: list[float]
    age: int = 0
    is_quiet: bool = False


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    if draw(st.integers(0, 3)) == 0:
        return Batch(0, "", [], [], [], draw(st.integers(0, 2)), draw(st.booleans()))
    kind = draw(st.integers(0, 3))
    if kind < 2:  # as training logs: one step after the other
        first, stride = draw(near), draw(st.sampled_from([1, 1, 3, 17]))
        steps = [first + stride * place for place in range(draw(st.integers(1, 40)))]
    else:
        steps = draw(st.lists(near if kind == 2 else st.one_of(near, huge), min_size=1, max_size=12))
    size = len(steps)
    values = draw(st.lists(value, min_size=size, max_size=size))
    offsets = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5]), min_size=size, max_size=size))
    return Batch(draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.sampled_from(["a", "a", "b"])), steps, offsets, values)


@dataclass
class Store:
    """What was written, beside the store itself."""

    is_clock_true: bool
    cursor: int = 0
    rows: dict[tuple[str, int], list[tuple[int, float, int, float]]] = field(default_factory=dict)

    def write(self, batch: Batch) -> None:
        steps = np.array(batch.steps, np.int64)
        # A true clock never goes back along the steps; another says what it likes.
        times = np.clip(steps, -(2.0**40), 2.0**40) if self.is_clock_true else np.array(batch.offsets)
        columns = Columns(steps, times + 1e9, np.array(batch.values))
        self.cursor += 1
        pieces = [store.SeriesPiece("p", 1, batch.name, {}, columns)]
        if batch.name == "a":  # a second series with the same axis
            pieces.append(store.SeriesPiece("p", 1, "twin", {}, columns))
        write_points("run1", attempt=batch.attempt, cursor=self.cursor, pieces=pieces)
        Telemetry.objects.update_or_create(run_id="run1", defaults={"cursor": self.cursor})
        for piece in pieces:
            own = self.rows.setdefault((piece.name, batch.attempt), [])
            own += zip(batch.steps, columns.times.tolist(), [len(own)] * steps.size, batch.values, strict=True)

    def points(self, name: str, attempt: int, *, is_superseded: bool = False) -> list[tuple[int, float, int, float]]:
        """The points in order (step, time, arrival), without those that a newer attempt hides (or only those)."""
        hidden = min(
            (row[0] for (other, later), rows in self.rows.items() if other == name and later > attempt for row in rows),
            default=2**64,
        )
        rows = sorted(self.rows.get((name, attempt), []), key=lambda row: row[:3])
        return [row for row in rows if (row[0] >= hidden) == is_superseded]


def filled(batches: list[Batch], *, is_clock_true: bool) -> Store:
    for model in (Segment, Level, AxisRow, Block, Series, Telemetry):
        model._default_manager.all().delete()
    made = Store(is_clock_true)
    for batch in batches:
        if batch.name:
            made.write(batch)
        elif made.cursor > batch.age:
            compact_run("run1", made.cursor - batch.age, is_quiet=batch.is_quiet)
    return made


def check(curve: Curve, rows: list[tuple[int, float, int, float]]) -> None:
    """Hold each bucket beside its points: those after the previous bucket's last, up to its own."""
    columns = curve.columns
    ends = np.cumsum(columns["count"])
    assert ends[-1] == len(rows)
    for index, end in enumerate(ends.tolist()):
        own = rows[end - int(columns["count"][index]) : end]
        values = np.array([row[3] for row in own])
        assert (columns["step"][index], columns["time"][index]) == own[-1][:2]
        assert same(columns["last"][index], values[-1])
        numbers = values[~np.isnan(values)]
        assert same(columns["min"][index], numbers.min() if numbers.size else math.nan)
        assert same(columns["max"][index], numbers.max() if numbers.size else math.nan)
        check_mean(float(columns["mean"][index]), numbers)


def check_mean(mean: float, numbers: Any) -> None:
    if not numbers.size:
        assert math.isnan(mean)
    elif not np.isfinite(numbers).all():
        with np.errstate(invalid="ignore"):
            assert same(mean, numbers.mean())
    else:  # the true mean, of which numpy's is within a rounding of the largest number
        true = math.fsum(numbers) / numbers.size
        assert abs(mean - true) <= 1e-12 * abs(true)


def same(one: Any, other: Any) -> bool:
    return bool(np.array_equal(np.float64(one), np.float64(other), equal_nan=True))


database = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
writing = st.lists(batches(), min_size=1, max_size=10)


@database
@given(writing, st.booleans())
def test_every_point_is_read_back_once_and_in_order(batches: list[Batch], is_clock_true: bool) -> None:
    made = filled(batches, is_clock_true=is_clock_true)
    read: dict[tuple[str, int, bool], list[tuple[int, float, float]]] = {}
    for curve in raw("run1", attempts="all"):
        rows = zip(*(curve.columns[name].tolist() for name in ("step", "time", "value")), strict=True)
        read.setdefault((curve.name, curve.attempt, curve.is_superseded), []).extend(rows)
    for name, attempt in made.rows:
        for is_superseded in (False, True):
            wanted = [
                (step, time, value) for step, time, _, value in made.points(name, attempt, is_superseded=is_superseded)
            ]
            found = read.pop((name, attempt, is_superseded), [])
            assert np.array_equal(np.array(found), np.array(wanted), equal_nan=True)
    assert not read
    assert {row.pk for row in AxisRow.objects.all()} == set(Segment.objects.values_list("axis_id", flat=True))


@database
@given(writing, st.booleans())
def test_the_figures_of_a_series_are_of_the_points_that_are_seen(batches: list[Batch], is_clock_true: bool) -> None:
    made = filled(batches, is_clock_true=is_clock_true)
    seen: dict[str, list[tuple[int, float, int, float]]] = {}
    for name, attempt in sorted(made.rows):
        seen.setdefault(name, []).extend(made.points(name, attempt))
    found = series_list("run1")
    assert [item["name"] for item in found] == sorted(seen)
    for item in found:
        rows = seen[item["name"]]
        finite = [value for *_, value in rows if math.isfinite(value)]
        assert (item["count"], item["min"], item["max"]) == (
            (len(rows), min(finite), max(finite)) if finite else (len(rows), None, None)
        )
        assert (item["first_step"], item["last_step"]) == (rows[0][0], rows[-1][0])
        assert same(float(str(item["last"]).replace("Infinity", "inf")), rows[-1][3])


@database
@given(
    writing,
    st.sampled_from(["step", "time"]),
    st.sampled_from([1, 2, 5, 20]),
    st.tuples(st.none() | near, st.none() | near),
    st.sampled_from(["newest", "all"]),
)
def test_every_bucket_is_what_numpy_makes_of_its_points(
    batches: list[Batch], x: Axis, points: int, window: tuple[int | None, int | None], attempts: Attempts
) -> None:
    made = filled(batches, is_clock_true=True)
    low, high = (-math.inf if window[0] is None else window[0]), (math.inf if window[1] is None else window[1])
    asked = window if x == "step" else tuple(None if end is None else end + 1e9 for end in window)
    cursors, found = curves({"run1": asked}, [], None, x, points, attempts)  # type: ignore[dict-item]
    assert cursors == {"run1": made.cursor}
    by_curve = {(curve.name, curve.attempt, curve.is_superseded): curve for curve in found}
    assert len(by_curve) == len(found)
    for name in {name for name, _ in made.rows}:
        shown = 0
        own = [curve for curve in found if curve.name == name]
        for attempt in {attempt for other, attempt in made.rows if other == name}:
            for is_superseded in (False, True) if attempts == "all" else (False,):
                rows = made.points(name, attempt, is_superseded=is_superseded)
                along = 0 if x == "step" else 1
                rows = [row for row in rows if low <= row[along] - (1e9 if along else 0) <= high]
                curve = by_curve.pop((name, attempt, is_superseded), None)
                assert (curve is None) == (not rows)
                if curve is None:
                    continue
                shown += len(rows)
                if curve.kind == "raw":
                    assert np.array_equal(
                        np.array([curve.columns["step"], curve.columns["time"], curve.columns["value"]]).T,
                        np.array([(row[0], row[1], row[3]) for row in rows]),
                        equal_nan=True,
                    )
                else:
                    check(curve, rows)
        assert sum(curve.columns["step"].size for curve in own) <= max(points, len(own))
        assert all(curve.kind == ("raw" if shown <= points else "buckets") for curve in own)
    assert not by_curve


@database
@given(writing, st.sampled_from([2, 5, 20]))
def test_clocks_that_jump_lose_no_point_and_time_goes_on(batches: list[Batch], points: int) -> None:
    made = filled(batches, is_clock_true=False)
    _, found = curves({"run1": (None, None)}, [], None, "time", points)
    _, inner = curves({"run1": (1e9 + 0.5, 1e9 + 2)}, [], None, "time", points)
    for curve in found + inner:
        assert (np.diff(curve.columns["time"]) >= 0).all()
    for name, attempt in made.rows:
        rows = made.points(name, attempt)
        assert count_of(found, name, attempt) == len(rows)
        assert count_of(inner, name, attempt) == len([row for row in rows if 0.5 <= row[1] - 1e9 <= 2])


def count_of(found: list[Curve], name: str, attempt: int) -> int:
    own = [curve for curve in found if (curve.name, curve.attempt) == (name, attempt)]
    return sum(
        int(curve.columns["count"].sum()) if curve.kind == "buckets" else curve.columns["step"].size for curve in own
    )
