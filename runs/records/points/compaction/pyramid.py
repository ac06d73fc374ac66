"""Buckets of 2**level steps, aligned at multiples of that: what many points come to, at every zoom. Pure.

Everything in a bucket adds up exactly, in any order and as often as one likes: counts, extremes, the last point (the
greatest step, then time, then arrival), and the sum, which is kept as two float64 (the sum rounded, and what the
rounding left over), so that a mean over 10**8 points is as good as one over ten.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics.codec import Columns, Floats, Steps, narrowed, pack_all, unpack_all

LADDER = range(2, 63, 4)  # the levels that are stored
PER_BUCKET = 32  # so many points a bucket on average make a level worth storing
TOP_BUCKETS = 1024  # of a level with so few buckets nothing coarser is needed

Keys = NDArray[np.int64]
Order = Literal["step", "time"]
NARROW = ("min", "max", "total", "rest", "last")  # columns that float32 often holds


class Buckets(NamedTuple):
    """Equally long columns, by ascending key: the bucket's number (of a step: floor(step / 2**level))."""

    key: Keys
    num_points: Steps
    num_nan: Steps
    min: Floats  # over what is not NaN; NaN where there is nothing
    max: Floats
    total: Floats  # the sum of what is not NaN is total + rest
    rest: Floats
    last: Floats
    last_step: Steps
    last_time: Floats
    last_cursor: Steps  # the newest batch of the segment that ``last`` was in: the later arrival of two equal ones
    min_time: Floats
    max_time: Floats

    @property
    def size(self) -> int:
        return self.key.size

    @property
    def mean(self) -> Floats:
        """NaN where nothing is a number."""
        numbers = self.num_points - self.num_nan
        with np.errstate(invalid="ignore"):
            return (self.total + self.rest) / np.where(numbers > 0, numbers, np.nan)

    def at(self, where: NDArray[np.int64] | NDArray[np.bool_]) -> "Buckets":
        return Buckets._make(column[where] for column in self)

    def part(self, start: int, end: int) -> "Buckets":
        return Buckets._make(column[start:end] for column in self)


def bucketed(columns: Columns, keys: Keys, cursor: int | Steps) -> Buckets:
    """Return one bucket for each key. At least one point; the points lie in order, so that keys never go down."""
    starts = np.flatnonzero(np.diff(keys, prepend=keys[0]) != 0)
    starts = np.concatenate([np.zeros(1, np.int64), starts])
    ends = np.append(starts[1:], keys.size) - 1
    values = columns.values
    is_nan = np.isnan(values)
    if is_nan.any():
        num_nan = np.add.reduceat(is_nan.astype(np.int64), starts)
        low, high = np.fmin.reduceat(values, starts), np.fmax.reduceat(values, starts)
        values = np.where(is_nan, 0.0, values)
    else:
        num_nan = np.zeros(starts.size, np.int64)
        low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    sizes = ends - starts + 1
    total, rest = _sums(values, np.fmax(np.abs(low), np.abs(high)), starts, sizes)
    return Buckets(
        key=keys[starts],
        num_points=sizes,
        num_nan=num_nan,
        min=low,
        max=high,
        total=total,
        rest=rest,
        last=columns.values[ends],
        last_step=columns.steps[ends],
        last_time=columns.times[ends],
        last_cursor=np.full(starts.size, cursor) if isinstance(cursor, int) else cursor[ends],
        min_time=np.minimum.reduceat(columns.times, starts),
        max_time=np.maximum.reduceat(columns.times, starts),
    )


def regrouped(buckets: Buckets, keys: Keys, order: Order = "step") -> Buckets:
    """Return the buckets put together by other keys, in any order. ``last`` is the last in (``order``, the other of
    step and time, arrival)."""
    if not buckets.size:
        return buckets
    by: list[NDArray[Any]] = [buckets.last_step, buckets.last_time]
    first, second = by if order == "step" else reversed(by)
    if not ((keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (first[1:] > first[:-1]))).all():
        places = np.lexsort((buckets.last_cursor, second, first, keys))
        buckets, keys = buckets.at(places), keys[places]
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    if starts.size == keys.size:
        return buckets._replace(key=keys)
    ends = np.append(starts[1:], keys.size) - 1
    scale = np.fmax.reduceat(np.abs(buckets.total), starts)
    total, rest = _sums(buckets.total, scale, starts, ends - starts + 1, buckets.rest)
    return Buckets(
        key=keys[starts],
        num_points=np.add.reduceat(buckets.num_points, starts),
        num_nan=np.add.reduceat(buckets.num_nan, starts),
        min=np.fmin.reduceat(buckets.min, starts),
        max=np.fmax.reduceat(buckets.max, starts),
        total=total,
        rest=rest,
        last=buckets.last[ends],
        last_step=buckets.last_step[ends],
        last_time=buckets.last_time[ends],
        last_cursor=buckets.last_cursor[ends],
        min_time=np.minimum.reduceat(buckets.min_time, starts),
        max_time=np.maximum.reduceat(buckets.max_time, starts),
    )


def combine(parts: Sequence[Buckets]) -> Buckets:
    """Return the buckets of at least one part as one, those of one key put together."""
    together = parts[0] if len(parts) == 1 else concatenated(parts)
    return regrouped(together, together.key)


def concatenated(parts: Sequence[Buckets]) -> Buckets:
    return parts[0] if len(parts) == 1 else Buckets._make(map(np.concatenate, zip(*parts, strict=True)))


def base_of(steps: Steps) -> int:
    """Return the first level of the ladder at which a bucket of these sorted steps has PER_BUCKET points on average."""
    first, last = int(steps[0]), int(steps[-1])
    for level in LADDER:
        if steps.size >= PER_BUCKET * ((last >> level) - (first >> level) + 1):
            return level
    return LADDER[-1]


def top_of(first: int, last: int, least: int) -> int:
    """Return the coarsest level that steps from first to last need, no lower than ``least``."""
    for level in LADDER:
        if level >= least and (last >> level) - (first >> level) < TOP_BUCKETS:
            return level
    return LADDER[-1]


def encode(buckets: Buckets) -> bytes:
    columns = buckets._asdict()
    columns |= {name: narrowed(columns[name]) for name in NARROW}
    columns["max_time"] = buckets.max_time.view(np.int64) - buckets.last_time.view(np.int64)  # 0: no clock went back
    return pack_all(*columns.values())


def decode(data: bytes) -> Buckets:
    """Return the buckets that encode() was given. Raises BadSegment."""
    found = dict(zip(Buckets._fields, unpack_all(data, len(Buckets._fields)), strict=True))
    found |= {name: found[name].astype(np.float64, copy=False) for name in NARROW}
    found["max_time"] = (found["max_time"] + found["last_time"].view(np.int64)).view(np.float64)
    return Buckets(**found)


def _sums(
    numbers: Floats, scale: Floats, starts: Keys, sizes: Keys, rest: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the sum of each group as a float64 and what that leaves over. ``scale`` is each group's greatest
    absolute value.

    Rump, Ogita, Oishi: Accurate floating-point summation (2008), algorithm 3.2: adding and taking away a power of two
    above the group's sum cuts each number into a part on a common grid, whose sum has no rounding, and a small rest.
    """
    exponents = np.frexp(scale)[1] + np.ceil(np.log2(sizes + 2.0)).astype(np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        grid = np.repeat(np.ldexp(1.0, np.minimum(exponents, 1023)), sizes)
        high = (grid + numbers) - grid
        coarse = np.add.reduceat(high, starts)
        fine = np.add.reduceat(numbers - high, starts)
        if rest is not None:
            fine = fine + np.add.reduceat(rest, starts)
        total = coarse + fine
        part = total - coarse
        left = (coarse - (total - part)) + (fine - part)
        is_plain = ~np.isfinite(scale) | (exponents > 1023) | ~np.isfinite(total)
        if is_plain.any():  # infinities, and what is so large that the grid would be
            plain = np.add.reduceat(numbers, starts)
            total, left = np.where(is_plain, plain, total), np.where(is_plain, 0.0, left)
    return total, left
