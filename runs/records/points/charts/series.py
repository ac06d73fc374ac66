"""Reading series: their points in a window, and small drawings of them.

A restart goes back to a checkpoint, so attempts overlap in steps: from a later attempt's first step on, what older
attempts said is hidden, in summaries of the window as in its points.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics.codec import Columns
from runs.records.metrics.models import Segment, Series
from runs.records.metrics.progress import cursors_of, snapshot
from runs.records.points.charts import fetch
from runs.records.points.charts.fetch import MAX_STEP, MAX_TIME, MIN_STEP, Part
from runs.records.points.charts.zoom import Span, draw
from runs.records.points.segments import decoded

SEGMENTS_AT_ONCE = 16
Axis = Literal["step", "time"]
MEDIAN_POINTS = 400  # of longer series the median is over the means of so many windows
MAX_DRAWN = 4096
_drawn: dict[tuple[Any, ...], dict[int, list[float]]] = {}  # by series and what changes with every point
Attempts = Literal["newest", "all"]
Window = tuple[float | None, float | None]  # from and to, both included; None: open


def last_of(row: Series) -> float | str | None:
    return row.last_text or row.last


class Curve(NamedTuple):
    """Curve of one series in one attempt, in the order of its axis.

    ``columns`` are equally long: step (int64), time (Unix seconds), value where ``kind`` is raw; step, time, min, max,
    mean, last, count (int64) where it is buckets, whose step, time and ``last`` are those of their last point, and
    num_nan (int64) where some of the points are NaN, which the others leave out.
    """

    run_id: str
    name: str
    labels: dict[str, str]
    attempt: int
    kind: Literal["raw", "buckets"]
    columns: dict[str, NDArray[Any]]
    is_superseded: bool = False  # a part that a newer attempt hides, at the steps that it has again


class RowFigures(NamedTuple):
    """Figures of a run's series in a row of a table; ``last`` is None where it has no such series."""

    line: list[float]
    last: float | str | None
    medians: dict[str, float]


class TooManyPoints(ValueError):
    """More points were asked for than one answer may have."""

    def __init__(self, num_points: int, at_most: int) -> None:
        words = f"These are up to {num_points:,} points, and one answer has at most {at_most:,}"
        super().__init__(f"{words}: ask for fewer runs or names, or for fewer points of each.")


def curves(
    windows: Mapping[str, Window],
    names: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    x: Axis = "step",
    points: int = 1500,
    attempts: Attempts = "newest",
    at_most: int | None = None,
    after: int = 0,
) -> tuple[dict[str, int], list[Curve]]:
    """Return the cursor of each run and the curves of its named series (of all where ``names`` is empty) in the run's
    window, as of one moment.

    ``labels`` picks the series that have at least these. At most ``points`` points or buckets per series in total
    over its attempts (at least one for each attempt): raw where they fit. ``attempts`` all adds what newer attempts
    hide, as curves of their own. ``after`` is for who saw all up to this cursor: of batches up to it there is only what
    was compacted. Raises TooManyPoints where all series together could have more than ``at_most``.
    """
    with snapshot():
        cursors = cursors_of(list(windows))
        rows = _chosen(list(windows), names, labels or {})
        num_points = sum(min(row.count, points) for row in rows)
        if at_most is not None and num_points > at_most:
            raise TooManyPoints(num_points, at_most)
        spans = [spans_of(row, x, windows[row.run_id], attempts) for row in rows]
        drawn = draw(list(windows), [[span for span, _ in group] for group in spans], x, points, after)
    rows_by_span = {id(span): (row, flag) for row, group in zip(rows, spans, strict=True) for span, flag in group}
    found = []
    for span, kind, columns in drawn:
        row, is_superseded = rows_by_span[id(span)]
        found.append(Curve(row.run_id, row.name, row.labels, span.place[1], kind, columns, is_superseded))
    return cursors, found


def raw(
    run_id: str, names: Sequence[str] = (), labels: Mapping[str, str] | None = None, attempts: Attempts = "newest"
) -> Iterator[Curve]:
    """Yield all points of the run's series, a stretch at a time: series by name and labels, attempts upwards, each in
    the order (step, time, arrival). Everything is of one moment: read it to the end, or close the iterator."""
    with snapshot():
        for row in _chosen([run_id], names, labels or {}):
            for span, is_superseded in spans_of(row, "step", (None, None), attempts):
                for columns in stream(run_id, span):
                    drawn = {"step": columns.steps, "time": columns.times, "value": columns.values}
                    yield Curve(run_id, row.name, row.labels, span.place[1], "raw", drawn, is_superseded)


def sparklines(run_ids: Sequence[str], name: str, points: int) -> dict[str, list[float]]:
    """Return for each run that has the series (without labels) at most ``points`` finite values, means of windows."""
    with snapshot():
        rows = list(Series.objects.filter(run_id__in=run_ids, name=name, labels_key="{}"))
        drawn = _small(rows, points)
    return {row.run_id: [value for values in drawn[row.pk].values() for value in values] for row in rows}


def steady_medians(run_ids: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return for each run the median of each of these series over its steady part: the newest attempt without its
    first tenth, in which it warms up. Of series that differ in labels: the one without labels, else the one with the
    newest point."""
    with snapshot():
        return _medians(_one_of_each(run_ids, names))


def row_figures(run_ids: Sequence[str], name: str, points: int, medians: Sequence[str]) -> dict[str, RowFigures]:
    """Return for each run what a row of a table shows of its series: ``name`` as sparklines() draws it and its last
    value, and steady_medians() of others. The series are read once for all of it."""
    with snapshot():
        rows = _one_of_each(run_ids, {name, *medians})
        lines = [row for (_, of), row in rows.items() if of == name and row.labels_key == "{}"]
        drawn = _small(lines, points)
        found = _medians({key: row for key, row in rows.items() if key[1] in medians})
    values = {row.run_id: [value for part in drawn[row.pk].values() for value in part] for row in lines}
    last = {run_id: last_of(row) for (run_id, of), row in rows.items() if of == name}
    return {pk: RowFigures(values.get(pk, []), last.get(pk), found.get(pk, {})) for pk in run_ids}


def _one_of_each(run_ids: Sequence[str], names: Collection[str]) -> dict[tuple[str, str], Series]:
    """Return one series by run and name: the one without labels, else the one with the newest point."""
    rows = Series.objects.defer("labels", "first_step", "min", "max").filter(run_id__in=run_ids, name__in=names)
    rows = rows.order_by("last_attempt", "last_time", "id")
    return {(row.run_id, row.name): row for row in sorted(rows, key=lambda row: row.labels_key == "{}")}


def _medians(rows: Mapping[tuple[str, str], Series]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    drawn = _small(list(rows.values()), MEDIAN_POINTS)
    for (run_id, name), row in rows.items():
        if values := drawn[row.pk].get(row.last_attempt, []):
            found.setdefault(run_id, {})[name] = median(values[min(math.ceil(len(values) / 10), len(values) - 1) :])
    return found


def _small(rows: Sequence[Series], points: int) -> dict[int, dict[int, list[float]]]:
    """Return by series and attempt at most ``points`` finite values, means of windows where there are more.

    A table of runs asks every few seconds: what has not grown since is not read again.
    """
    keys = {row.pk: (row.run_id, row.pk, points, row.count, row.last_attempt, row.last_time) for row in rows}
    found = {row.pk: _drawn[keys[row.pk]] for row in rows if keys[row.pk] in _drawn}
    grown = [row for row in rows if row.pk not in found]
    spans = [[span for span, _ in spans_of(row, "step", (None, None), "newest")] for row in grown]
    found |= {row.pk: {} for row in grown}
    for span, kind, columns in draw([row.run_id for row in grown], spans, "step", points):
        values = columns["value" if kind == "raw" else "mean"]
        pk, attempt = span.place
        found[pk].setdefault(attempt, []).extend(values[np.isfinite(values)].tolist())
    if len(_drawn) > MAX_DRAWN:
        _drawn.clear()
    _drawn.update((keys[row.pk], found[row.pk]) for row in grown)
    return found


def _chosen(run_ids: Sequence[str], names: Sequence[str], labels: Mapping[str, str]) -> list[Series]:
    rows = Series.objects.filter(run_id__in=run_ids).order_by("name", "labels_key")
    if names:
        rows = rows.filter(name__in=list(names))
    order = {run_id: place for place, run_id in enumerate(run_ids)}
    chosen = [row for row in rows if labels.items() <= row.labels.items()]
    return sorted(chosen, key=lambda row: order[row.run_id])


def spans_of(row: Series, x: Axis, window: Window, attempts: Attempts) -> list[tuple[Span, bool]]:
    """Return what each attempt shows of the series in the window, and whether it is superseded."""
    low, high = _steps_of(window) if x == "step" else (MIN_STEP, MAX_STEP)
    start, end = (-MAX_TIME, MAX_TIME) if x == "step" else _times_of(window)
    firsts = {int(attempt): first for attempt, first in row.firsts.items()}
    spans = []
    for attempt, first in sorted(firsts.items()):
        last = row.last_step if attempt == row.last_attempt and row.last_step is not None else MAX_STEP
        hidden = min((other for later, other in firsts.items() if later > attempt), default=MAX_STEP + 1)
        for is_superseded, lowest, highest in ((False, first, hidden - 1), (True, max(hidden, first), MAX_STEP)):
            span = Span((row.pk, attempt), max(low, lowest), min(high, highest), start, end, first, last)
            if span.low <= span.high and not (is_superseded and attempts == "newest"):
                spans.append((span, is_superseded))
    return spans


def _steps_of(window: Window) -> tuple[int, int]:
    start, end = window
    low = MIN_STEP if start is None else math.ceil(max(start, MIN_STEP))
    return low, MAX_STEP if end is None else math.floor(min(end, MAX_STEP))


def _times_of(window: Window) -> tuple[float, float]:
    start, end = window
    low = -MAX_TIME if start is None else max(float(start), -MAX_TIME)
    return low, MAX_TIME if end is None else min(float(end), MAX_TIME)


# All points of a span in order, a stretch at a time, in bounded memory: segments are read as their steps come up, and
# what no later segment can precede is handed on.


def stream(run_id: str, span: Span) -> Iterator[Columns]:
    """Yield the span's points by (step, time, arrival). Inside a snapshot."""
    waiting = fetch.between(fetch.blocks([run_id], {span.place[0]}).get(span.place, []), span.low, span.high)
    for next_step, parts in _arriving(span):
        waiting += fetch.between(parts, span.low, span.high)
        if ready := fetch.between(waiting, fetch.MIN_STEP, next_step - 1):
            waiting = fetch.between(waiting, next_step, fetch.MAX_STEP)
            yield fetch.in_order(ready)[0]


def _arriving(span: Span) -> Iterator[tuple[int, list[Part]]]:
    """Yield some segments, by their first steps, and the first step of those that come after them."""
    series_id, attempt = span.place
    rows = Segment.objects.filter(
        series=series_id, attempt=attempt, first_step__lte=span.high, last_step__gte=span.low
    ).order_by("first_step")
    known: list[tuple[int, int]] = list(rows.values_list("pk", "first_step"))
    for start in range(0, len(known), SEGMENTS_AT_ONCE):
        some = known[start : start + SEGMENTS_AT_ONCE]
        later = known[start + SEGMENTS_AT_ONCE : start + SEGMENTS_AT_ONCE + 1]
        rows = Segment.objects.filter(pk__in=[pk for pk, _ in some])
        parts = [(row.cursor, row.pk, columns) for row, columns in decoded(rows)]
        yield later[0][1] if later else fetch.MAX_STEP + 1, parts
    if not known:
        yield fetch.MAX_STEP + 1, []
