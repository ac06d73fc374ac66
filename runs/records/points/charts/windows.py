"""Into which windows a chart's width is cut. Pure.

Windows are powers of two wide (steps, or seconds) and aligned at multiples of that: a series that grows, or a chart
that is moved, keeps its buckets.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics.codec import Floats

ALL = 64  # the level at which a range is one window, on both sides of step 0
ALL_TIMES = 1024  # the same of seconds


def level_of(ranges: Sequence[tuple[int, int]], points: int) -> int:
    """Return the smallest k at which windows of 2**k steps over all ranges (ends included) are no more than ``points``
    together; ALL where there are more ranges than that."""
    for level in range(ALL):
        if sum((high >> level) - (low >> level) + 1 for low, high in ranges) <= points:
            return level
    return ALL


def scale_of(ranges: Sequence[tuple[float, float]], points: int) -> int:
    """The same for times: windows of 2**k seconds, where k may be negative."""
    largest = max(abs(end) for both in ranges for end in both)
    widest = max(high - low for low, high in ranges)
    finest = math.frexp(largest)[1] - 52  # finer than neighbouring floats it need not be
    scale = finest if widest <= 0 else max(finest, math.frexp(widest / points)[1] - 1)
    while scale < ALL_TIMES:
        if sum(_window(high, scale) - _window(low, scale) + 1 for low, high in ranges) <= max(points, len(ranges)):
            return scale
        scale += 1
    return scale


def time_keys(times: Floats, scale: int) -> NDArray[np.int64]:
    if scale >= ALL_TIMES:
        return np.zeros(times.size, np.int64)
    return np.floor(np.ldexp(times, -scale)).astype(np.int64)


def _window(time: float, scale: int) -> int:
    return math.floor(math.ldexp(time, -scale))
