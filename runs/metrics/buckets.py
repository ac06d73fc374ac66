"""Points in windows of equal width, one bucket each: what a chart needs where there are more points than pixels. Pure.

Exact: every point is in one bucket, the smallest and the largest are kept. NaN is left out of min, max and mean, and
counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.metrics.codec import Columns, Floats, Steps


class Buckets(NamedTuple):
    """Equally long columns. Step and time are those of the bucket's last point, whose value ``last`` is."""

    steps: Steps
    times: Floats
    min: Floats
    max: Floats
    mean: Floats
    last: Floats
    counts: Steps


def windows_of_steps(steps: Steps, low: int, high: int, count: int) -> Steps:
    """Return for each step the number of its window, where at most ``count`` windows cover low to high (inclusive)."""
    width = max(1, -(-(high - low + 1) // count))  # Python's integers: the span of int64 does not fit int64
    offsets = steps.view(np.uint64) - np.uint64(low % 2**64)  # exact modulo 2**64, and never negative
    return (offsets // np.uint64(width)).astype(np.int64)


def windows_of_times(times: Floats, low: float, high: float, count: int) -> Steps:
    """The same for times: ``count`` windows from low to high, the last one closed."""
    if high <= low:
        return np.zeros(times.size, np.int64)
    return np.minimum((times - low) / (high - low) * count, count - 1).astype(np.int64)


def bucketed(columns: Columns, windows: NDArray[np.int64]) -> Buckets:
    """Return one bucket per window that has points. Points are sorted by window; there is at least one."""
    starts = np.flatnonzero(np.diff(windows, prepend=windows[0] - 1))
    ends = np.append(starts[1:], windows.size) - 1
    values = columns.values
    is_nan = np.isnan(values)
    numbers = np.add.reduceat((~is_nan).astype(np.int64), starts)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        sums = np.add.reduceat(np.where(is_nan, 0.0, values), starts)
        return Buckets(
            steps=columns.steps[ends],
            times=columns.times[ends],
            min=np.fmin.reduceat(values, starts),
            max=np.fmax.reduceat(values, starts),
            mean=np.where(numbers > 0, sums / numbers, np.nan),
            last=values[ends],
            counts=ends - starts + 1,
        )
