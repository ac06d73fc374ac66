"""Writing stretches of points as segments, each axis once."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics import bulk
from runs.records.metrics.bulk import in_parts
from runs.records.metrics.codec import Columns, Floats, Steps, decode_axis, decode_values, encode_axis, encode_values
from runs.records.metrics.models import Axis, Segment

POINTS_PER_SEGMENT = 16_384  # who reads a window decodes whole segments
FIELDS = (
    "series_id", "axis_id", "attempt", "cursor", "count", "first_step", "last_step", "first_time", "last_time",
    "is_sealed", "base", "data",
)  # fmt: skip
UNSEALED = 62  # as long as any base that comes in its place, so that SQLite changes one page and moves nothing


class Stretch(NamedTuple):
    """Points of one series, and the newest batch that they came with."""

    series_id: int
    cursor: int
    columns: Columns


class Encoded(NamedTuple):
    """Segments that are ready to be saved, and the axes that they share."""

    axes: list[Axis]
    segments: list[Segment]

    def save(self) -> None:
        Axis.objects.bulk_create(self.axes)
        for segment in self.segments:
            segment.axis_id = segment.axis.pk
        bulk.insert(Segment, FIELDS, [[getattr(segment, name) for name in FIELDS] for segment in self.segments])


class _Cut(NamedTuple):
    """An axis that was put in order and cut."""

    of: tuple[Steps, Floats]  # what it was made from: kept, since it is known by its identity
    order: NDArray[np.int64] | None  # None: it was in order
    parts: list[tuple[slice, Steps, Floats]]


def write_segments(run_id: str, attempt: int, stretches: Iterable[Stretch]) -> None:
    """Store the stretches, points in order of arrival. Stretches whose steps and times are
    the same objects share their axes."""
    cuts: dict[tuple[int, int], _Cut] = {}
    ready: list[tuple[int, Stretch, int | None]] = []
    for stretch in stretches:
        steps, times, values = stretch.columns
        key = id(steps), id(times)
        if key not in cuts:
            cuts[key] = _cut(steps, times)
        cut = cuts[key]
        if cut.order is not None:
            values = values[cut.order]
        for part, own_steps, own_times in cut.parts:
            columns = Columns(own_steps, own_times, values[part])
            ready.append((attempt, Stretch(stretch.series_id, stretch.cursor, columns), None))
    encode_segments(run_id, ready).save()


def encode_segments(run_id: str, ready: Iterable[tuple[int, Stretch, int | None]]) -> Encoded:
    """Return a segment for each (attempt, stretch in order and no longer than a segment, base: None where it is not
    sealed). Stretches whose steps and times are the same objects share their axis."""
    axes: dict[tuple[int, int], Axis] = {}
    kept: list[Columns] = []  # while they are known by their identity
    made: list[Segment] = []
    for attempt, stretch, base in ready:
        steps, times, values = stretch.columns
        key = id(steps), id(times)
        if key not in axes:
            axes[key] = Axis(run_id=run_id, count=steps.size, data=encode_axis(steps, times))
            kept.append(stretch.columns)
        made.append(Segment(
            series_id=stretch.series_id, axis=axes[key], attempt=attempt, cursor=stretch.cursor, count=steps.size,
            first_step=int(steps[0]), last_step=int(steps[-1]), first_time=float(times.min()),
            last_time=float(times.max()), is_sealed=base is not None, base=UNSEALED if base is None else base,
            data=encode_values(values),
        ))  # fmt: skip
    return Encoded(list(axes.values()), made)


def _cut(steps: Steps, times: Floats) -> _Cut:
    """Cut an axis into segments of nearly the same length: a short one at each end would have to be merged again."""
    order = order_of(steps, times)
    of = steps, times
    if order is not None:
        steps, times = steps[order], times[order]
    length = -(-steps.size // -(-steps.size // POINTS_PER_SEGMENT))
    return _Cut(of, order, [(part, steps[part], times[part]) for part in slices(steps, times, length)])


def slices(steps: Steps, times: Floats, length: int) -> Iterator[slice]:
    """Yield the parts of an axis in order, of at most ``length`` points, but that points of one step and instant stay
    together: the order of segments decides which of two such points came later."""
    start, count = 0, steps.size
    while start < count:
        end = min(start + length, count)
        if end < count and steps[end - 1] == steps[end] and times[end - 1] == times[end]:
            same = (steps[start:] == steps[end]) & (times[start:] == times[end])
            first, last = start + int(same.argmax()), start + int(np.flatnonzero(same)[-1]) + 1
            end = first if first > start else last
        yield slice(start, end)
        start = end


def order_of(steps: Steps, times: Floats) -> NDArray[np.int64] | None:
    """Return the places of the points by step, within a step by time, else as they came; None where they are so."""
    later = steps[1:] > steps[:-1]
    if later.all() or (later | ((steps[1:] == steps[:-1]) & (times[1:] >= times[:-1]))).all():
        return None
    return np.lexsort((times, steps))


# The points of segments, each with its axis.


def decoded(segments: Iterable[Segment]) -> Iterator[tuple[Segment, Columns]]:
    """Yield the segments with their points; an axis that several share is read once."""
    rows = list(segments)
    axes = axes_of({row.axis_id for row in rows})
    for row in rows:
        yield row, Columns(*axes[row.axis_id], decode_values(bytes(row.data)))


def axes_of(ids: set[int]) -> dict[int, tuple[Steps, Floats]]:
    found: dict[int, tuple[Steps, Floats]] = {}
    for some in in_parts(sorted(ids)):
        rows = Axis.objects.filter(pk__in=some).values_list("pk", "data")
        found.update((pk, decode_axis(bytes(data))) for pk, data in rows.iterator())
    return found
