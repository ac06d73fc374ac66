"""Reading spans of series at the width of a chart: points where they fit, else exact buckets from the pyramid, with raw
points at the edges and where the pyramid does not reach. Few queries, however many spans."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics.codec import Columns, Floats, Steps
from runs.records.points.charts import fetch
from runs.records.points.charts.fetch import Extent, Part, Want
from runs.records.points.compaction.levels import Place
from runs.records.points.compaction.pyramid import Buckets, bucketed, combine, concatenated, regrouped
from runs.records.points.segments import POINTS_PER_SEGMENT

ALL = 64  # the level at which a range is one window, on both sides of step 0
ALL_TIMES = 1024  # the same of seconds
Axis = Literal["step", "time"]
Drawn = dict[str, NDArray[Any]]

FINE = 2  # buckets of the pyramid per window of time, at least
MAX_SPLIT = 16  # buckets that span more than a window of time are read raw, the longest of them so many


@dataclass
class Span:
    """Part of a series that one attempt shows: steps from low to high (ends included), of these the times from start to
    end.

    ``first`` and ``last`` are those of all points of the attempt, as far as they are known: a bucket at a limit that
    lies beyond them is whole.
    """

    place: Place
    low: int
    high: int
    start: float
    end: float
    first: int
    last: int
    # filled in while reading
    seen: tuple[int, int] = (0, 0)  # the steps that there are
    level: int = -1
    parts: list[Part] = field(default_factory=list)  # raw points
    kept: Buckets | None = None
    split: list[tuple[int, int]] = field(default_factory=list)  # steps that are read raw in place of their buckets

    @property
    def is_timed(self) -> bool:
        return self.start > -fetch.MAX_TIME or self.end < fetch.MAX_TIME

    def want(self, level: int = -1) -> Want:
        return Want(self.place, *self.seen, self.start, self.end, level)

    def add(self, parts: Sequence[Part]) -> None:
        inside = fetch.between(parts, self.low, self.high)
        self.parts += _timed(inside, self.start, self.end) if self.is_timed else inside

    @property
    def num_points(self) -> int:
        return sum(part[2].size for part in self.parts) + (int(self.kept.num_points.sum()) if self.kept else 0)


def draw(
    run_ids: Sequence[str], groups: Sequence[list[Span]], x: Axis, points: int, after: int = 0
) -> list[tuple[Span, Literal["raw", "buckets"], Drawn]]:
    """Return the columns of each span that has points. A group is the spans of one series, which have ``points``
    together. Blocks up to the cursor ``after`` are left out."""
    spans = [span for group in groups for span in group]
    parts = fetch.blocks(run_ids, {span.place[0] for span in spans}, after)
    for span in spans:
        span.seen = span.low, span.high
    found = fetch.extents([span.want() for span in spans])
    counts = {id(span): _meet(span, found.get(n), parts.get(span.place, [])) for n, span in enumerate(spans)}
    groups = [[span for span in group if counts[id(span)]] for group in groups]
    is_large = [
        sum(counts[id(span)] for span in group) > points + (3 * POINTS_PER_SEGMENT if _is_cut(group) else 0)
        for group in groups
    ]
    _choose_levels([group for group, large in zip(groups, is_large, strict=True) if large], x, points)
    _read([span for group in groups for span in group], _window_s(found, spans, points) if x == "time" else None)
    # Segments that overlap may have promised more points than lie in the window.
    few = [group for group in groups if any(s.level >= 0 for s in group) and sum(s.num_points for s in group) <= points]
    for span in (span for group in few for span in group):
        span.level, span.kept, span.split = -1, None, []
        span.parts = []
        span.add(parts.get(span.place, []))
    _read([span for group in few for span in group])
    return [drawn for group in groups for drawn in _drawn(group, x, points)]


def _meet(span: Span, extent: Extent | None, blocks: list[Part]) -> int:
    """Note the steps that the span has, and return how many points it may have at most."""
    span.add(blocks)
    ranges = [(int(columns.steps.min()), int(columns.steps.max())) for _, _, columns in span.parts]
    if extent is not None:
        ranges.append((max(span.low, extent.first_step), min(span.high, extent.last_step)))
    if ranges:
        span.seen = min(low for low, _ in ranges), max(high for _, high in ranges)
    return span.num_points + (extent.count if extent else 0)


def _window_s(found: dict[int, Extent], spans: Sequence[Span], points: int) -> Callable[[Span], float]:
    lengths = {}
    for n, extent in found.items():
        start, end = max(spans[n].start, extent.first_time), min(spans[n].end, extent.last_time)
        lengths[id(spans[n])] = 2 * (end - start) / points
    return lambda span: lengths.get(id(span), math.inf)


def _is_cut(group: Sequence[Span]) -> bool:
    return any(span.low > span.first or span.high < span.last or span.is_timed for span in group)


def _choose_levels(groups: Sequence[list[Span]], x: Axis, points: int) -> None:
    available = fetch.available_levels(span.place[0] for group in groups for span in group)
    for group in groups:
        width = level_of([span.seen for span in group], points if x == "step" else FINE * points)
        for span in group:
            span.level = max((level for level in available.get(span.place, []) if level <= width), default=-1)


def _read(spans: Sequence[Span], window_s: Callable[[Span], float] | None = None) -> None:
    axes: dict[int, tuple[Steps, Floats]] = {}
    loose = fetch.segments([span.want(span.level) for span in spans], fetch.LOOSE, axes)
    for n, span in enumerate(spans):
        span.add(loose.get(n, []))
    leveled = [span for span in spans if span.level >= 0]
    rows = fetch.level_buckets([span.want(span.level) for span in leveled])
    for n, span in enumerate(leveled):
        _keep(span, rows.get(n, []), window_s(span) if window_s else math.inf)
    edges = [(span, Want(span.place, *both, level=span.level)) for span in leveled for both in span.split]
    sealed = fetch.segments([want for _, want in edges], fetch.SEALED, axes)
    for n, (span, want) in enumerate(edges):
        span.add(fetch.between(sealed.get(n, []), want.low, want.high))


def _keep(span: Span, rows: list[Buckets], window_s: float) -> None:
    """Take the buckets that lie in the span as a whole, and note the steps of those that are to be read raw: they lie
    in it in part, or are among the few that last longer than a window of time (training stood still)."""
    if not rows:
        return
    buckets = combine(rows)
    level = span.level
    first, last = 0, buckets.size
    begins_within = span.low > span.first and (span.low >> level) << level < span.low
    if last and begins_within and buckets.key[0] == span.low >> level:
        first = 1
    if last > first and span.high < span.last and buckets.key[-1] == span.high >> level:
        last -= ((span.high >> level) + 1) << level != span.high + 1
    edges = np.concatenate([buckets.key[:first], buckets.key[last:]])
    buckets = buckets.part(first, last)
    if span.is_timed or window_s < math.inf:
        is_in = (buckets.max_time >= span.start) & (buckets.min_time <= span.end)
        is_split = is_in & ((buckets.min_time < span.start) | (buckets.max_time > span.end))
        lasts = np.where(is_in & ~is_split, buckets.max_time - buckets.min_time, 0.0)
        longer = np.flatnonzero(lasts > window_s)
        is_split[longer[np.argsort(lasts[longer])[-MAX_SPLIT:]]] = True
        edges = np.sort(np.concatenate([edges, buckets.key[is_split]]))
        buckets = buckets if (is_in & ~is_split).all() else buckets.at(is_in & ~is_split)
    span.kept = buckets
    span.split = _ranges(edges, level, span)


def _ranges(keys: Steps, level: int, span: Span) -> list[tuple[int, int]]:
    """Return the steps of the buckets that lie in the span, neighbours as one."""
    if not keys.size:
        return []
    ends = np.flatnonzero(np.diff(keys) > 1)
    firsts, lasts = keys[np.append(0, ends + 1)].tolist(), keys[np.append(ends, keys.size - 1)].tolist()
    return [
        (max(span.low, first << level), min(span.high, ((last + 1) << level) - 1))
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _drawn(group: Sequence[Span], x: Axis, points: int) -> list[tuple[Span, Literal["raw", "buckets"], Drawn]]:
    group = [span for span in group if span.num_points]
    if not group:
        return []
    if all(span.kept is None for span in group) and sum(span.num_points for span in group) <= points:
        return [(span, "raw", _raw(fetch.in_order(span.parts)[0], x)) for span in group]
    buckets = _by_steps(group, points) if x == "step" else _by_times(group, points)
    return [(span, "buckets", _columns(own)) for span, own in zip(group, buckets, strict=True)]


def _raw(columns: Columns, x: Axis) -> Drawn:
    if x == "time" and not (columns.times[1:] >= columns.times[:-1]).all():
        columns = columns.at(np.lexsort((columns.steps, columns.times)))
    return {"step": columns.steps, "time": columns.times, "value": columns.values}


def _columns(buckets: Buckets) -> Drawn:
    columns: Drawn = {
        "step": buckets.last_step,
        "time": buckets.last_time,
        "min": buckets.min,
        "max": buckets.max,
        "mean": buckets.mean,
        "last": buckets.last,
        "count": buckets.num_points,
    }
    return columns | {"num_nan": buckets.num_nan} if buckets.num_nan.any() else columns


def _by_steps(group: Sequence[Span], points: int) -> list[Buckets]:
    width = level_of([span.seen for span in group], points)
    found = []
    for span in group:
        parts: list[Buckets] = []
        if span.kept is not None and span.kept.size:
            parts.append(regrouped(span.kept, _shifted(span.kept.key, width - span.level, width)))
        if span.parts:
            columns, cursors = fetch.in_order(span.parts)
            parts.append(bucketed(columns, _shifted(columns.steps, width, width), cursors))
        found.append(combine(parts))
    return found


def _shifted(keys: Steps, places: int, width: int) -> Steps:
    return keys >> places if width < ALL else np.zeros(keys.size, np.int64)


def _by_times(group: Sequence[Span], points: int) -> list[Buckets]:
    scale = scale_of([_times(span) for span in group], points)
    found = []
    for span in group:
        parts: list[Buckets] = []
        columns: Columns | None = None
        cursors = np.zeros(0, np.int64)
        if span.parts:
            columns, cursors = fetch.in_order(span.parts)
        if span.kept is not None and span.kept.size:
            kept = span.kept
            if columns is not None:
                # A point between those of a bucket counts with them, so that what a bucket of the answer holds is
                # everything between two points of the series.
                keys = columns.steps >> span.level
                is_within = np.isin(keys, kept.key)
                if is_within.any():
                    inner = bucketed(columns.at(is_within), keys[is_within], cursors[is_within])
                    kept = combine([kept, inner])
                    columns, cursors = columns.at(~is_within), cursors[~is_within]
            parts.append(regrouped(kept, time_keys(kept.last_time, scale), "time"))
        if columns is not None and columns.size:
            parts.append(_timed_buckets(columns, cursors, scale))
        together = concatenated(parts)
        found.append(regrouped(together, together.key, "time"))
    return found


def _timed_buckets(columns: Columns, cursors: Steps, scale: int) -> Buckets:
    if not (columns.times[1:] >= columns.times[:-1]).all():
        order = np.lexsort((columns.steps, columns.times))
        columns, cursors = columns.at(order), cursors[order]
    return bucketed(columns, time_keys(columns.times, scale), cursors)


def _times(span: Span) -> tuple[float, float]:
    lows = [float(columns.times.min()) for _, _, columns in span.parts]
    highs = [float(columns.times.max()) for _, _, columns in span.parts]
    if span.kept is not None and span.kept.size:
        lows.append(float(span.kept.min_time.min()))
        highs.append(float(span.kept.max_time.max()))
    return min(lows), max(highs)


def _timed(parts: list[Part], start: float, end: float) -> list[Part]:
    inside = ((cursor, pk, one.at((one.times >= start) & (one.times <= end))) for cursor, pk, one in parts)
    return [part for part in inside if part[2].size]


# Into which windows a chart's width is cut. Pure.
#
# Windows are powers of two wide (steps, or seconds) and aligned at multiples of that: a series that grows, or a chart
# that is moved, keeps its buckets.


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
    first = finest if widest <= 0 else max(finest, math.frexp(widest / points)[1] - 1)
    for scale in range(first, ALL_TIMES):
        if sum(_window(high, scale) - _window(low, scale) + 1 for low, high in ranges) <= max(points, len(ranges)):
            return scale
    return ALL_TIMES


def time_keys(times: Floats, scale: int) -> NDArray[np.int64]:
    if scale >= ALL_TIMES:
        return np.zeros(times.size, np.int64)
    return np.floor(np.ldexp(times, -scale)).astype(np.int64)


def _window(time: float, scale: int) -> int:
    return math.floor(math.ldexp(time, -scale))
