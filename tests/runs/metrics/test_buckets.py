from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runs.metrics.buckets import bucketed, windows_of_steps, windows_of_times
from runs.metrics.codec import Columns

points = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.one_of(st.floats(-1e6, 1e6), st.just(math.nan))), min_size=1
)


@given(points, st.integers(2, 50))
def test_buckets_are_what_a_loop_would_make(rows: list[tuple[int, float]], count: int) -> None:
    rows.sort(key=lambda row: row[0])
    steps = np.array([step for step, _ in rows], np.int64)
    values = np.array([value for _, value in rows])
    low, high = rows[0][0], rows[-1][0]
    windows = windows_of_steps(steps, low, high, count)
    width = max(1, math.ceil((high - low + 1) / count)) if high - low < 2**50 else -(-(high - low + 1) // count)
    assert windows.tolist() == [(step - low) // width for step, _ in rows]
    assert windows.max() < count

    buckets = bucketed(Columns(steps, np.zeros(len(rows)), values), windows)
    for index, window in enumerate(sorted(set(windows.tolist()))):
        members = [row for row, number in zip(rows, windows, strict=True) if number == window]
        finite = [value for _, value in members if not math.isnan(value)]
        assert buckets.counts[index] == len(members)
        assert buckets.steps[index] == members[-1][0]
        assert np.array_equal(buckets.last[index], members[-1][1], equal_nan=True)
        assert np.array_equal(buckets.min[index], min(finite, default=math.nan), equal_nan=True)
        assert np.array_equal(buckets.max[index], max(finite, default=math.nan), equal_nan=True)
        assert np.allclose(buckets.mean[index], math.fsum(finite) / len(finite) if finite else math.nan, equal_nan=True)
    assert int(buckets.counts.sum()) == len(rows)


def test_windows_of_times_cover_both_ends() -> None:
    times = np.array([0.0, 0.1, 5.0, 10.0])
    assert windows_of_times(times, 0.0, 10.0, 2).tolist() == [0, 0, 1, 1]
    assert windows_of_times(np.array([3.0, 3.0]), 3.0, 3.0, 5).tolist() == [0, 0]


def test_infinities_are_extremes() -> None:
    values = np.array([1.0, math.inf, -math.inf])
    buckets = bucketed(Columns(np.arange(3), np.zeros(3), values), np.zeros(3, np.int64))
    assert (buckets.min[0], buckets.max[0]) == (-math.inf, math.inf)
    assert math.isnan(buckets.mean[0])
