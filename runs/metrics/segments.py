"""Writing stretches of points as segments, each axis once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runs.metrics.codec import Columns, Floats, Steps, encode_axis, encode_values
from runs.metrics.models import Axis, Segment

POINTS_PER_SEGMENT = 16_384  # who reads a window decodes whole segments


@dataclass(frozen=True)
class Stretch:
    """Points of one series, in order of arrival, and the newest batch that they came with."""

    series_id: int
    cursor: int
    columns: Columns


@dataclass(frozen=True)
class _Cut:
    """An axis that was put in order and cut into segments."""

    of: tuple[Steps, Floats]  # what it was made from: kept, since it is known by its identity
    order: NDArray[np.int64] | None  # None: it was in order
    steps: Steps
    times: Floats
    axes: list[Axis]


def write_segments(
    run_id: str, attempt: int, stretches: Iterable[Stretch], *, base_of: Callable[[Steps], int] | None = None
) -> list[Segment]:
    """Store the stretches and return their segments. Stretches whose steps and times are the same objects share their
    axes. ``base_of`` tells the ladder level from which on a segment is in the pyramid: given, they are sealed."""
    cuts: dict[tuple[int, int], _Cut] = {}
    made: list[Segment] = []
    for stretch in stretches:
        steps, times, values = stretch.columns
        key = id(steps), id(times)
        if key not in cuts:
            cuts[key] = _cut(run_id, steps, times)
        cut = cuts[key]
        if cut.order is not None:
            values = values[cut.order]
        for place, axis in enumerate(cut.axes):
            part = slice(place * POINTS_PER_SEGMENT, (place + 1) * POINTS_PER_SEGMENT)
            made.append(_segment(stretch, attempt, axis, cut.steps[part], cut.times[part], values[part], base_of))
    Axis.objects.bulk_create(axis for cut in cuts.values() for axis in cut.axes)
    for segment in made:
        segment.axis_id = segment.axis.pk
    Segment.objects.bulk_create(made)
    return made


def _cut(run_id: str, steps: Steps, times: Floats) -> _Cut:
    order = order_of(steps, times)
    of = steps, times
    if order is not None:
        steps, times = steps[order], times[order]
    axes = []
    for start in range(0, steps.size, POINTS_PER_SEGMENT):
        part = slice(start, start + POINTS_PER_SEGMENT)
        axes.append(Axis(run_id=run_id, count=steps[part].size, data=encode_axis(steps[part], times[part])))
    return _Cut(of, order, steps, times, axes)


def order_of(steps: Steps, times: Floats) -> NDArray[np.int64] | None:
    """Return the places of the points by step, within a step by time, else as they came; None where they are so."""
    later = steps[1:] > steps[:-1]
    if later.all() or (later | ((steps[1:] == steps[:-1]) & (times[1:] >= times[:-1]))).all():
        return None
    return np.lexsort((times, steps))


def _segment(
    stretch: Stretch,
    attempt: int,
    axis: Axis,
    steps: Steps,
    times: Floats,
    values: Floats,
    base_of: Callable[[Steps], int] | None,
) -> Segment:
    return Segment(
        series_id=stretch.series_id,
        axis=axis,
        attempt=attempt,
        cursor=stretch.cursor,
        count=steps.size,
        first_step=int(steps[0]),
        last_step=int(steps[-1]),
        first_time=float(times.min()),
        last_time=float(times.max()),
        is_sealed=base_of is not None,
        base=0 if base_of is None else base_of(steps),
        data=encode_values(values),
    )
