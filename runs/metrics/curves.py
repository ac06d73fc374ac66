"""Reading series: their list, their points in a window, and small drawings of them.

A restart goes back to a checkpoint, so attempts overlap in steps: from a later attempt's first step on, what older
attempts said is hidden, in summaries of the window as in its points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from django.db.models import Q
from numpy.typing import NDArray

from runs.metrics.buckets import bucketed, windows_of_steps, windows_of_times
from runs.metrics.codec import Columns, joined
from runs.metrics.delta import numbers
from runs.metrics.models import Series, Telemetry
from runs.metrics.points import Place, stored
from runs.metrics.segments import order_of
from runs.metrics.snapshot import snapshot

Axis = Literal["step", "time"]
Attempts = Literal["newest", "all"]
Window = tuple[float | None, float | None]  # from and to, both included; None: open


def series_list(run_id: str) -> list[dict[str, Any]]:
    """Return every series of the run as PRODUCT's items, by name and labels."""
    rows = Series.objects.filter(run_id=run_id).order_by("name", "labels_key")
    return [
        {
            "name": row.name,
            "labels": row.labels,
            "count": row.count,
            "first_step": row.first_step,
            "last_step": row.last_step,
            "last": last_of(row),
            "min": row.min,
            "max": row.max,
        }
        for row in rows
    ]


def last_of(row: Series) -> float | str | None:
    return row.last_text or row.last


@dataclass(frozen=True)
class Curve:
    """What a chart draws of one series in one attempt, in the order of its axis.

    ``columns`` are equally long: step (int64), time (Unix seconds), value where ``kind`` is raw; step, time, min, max,
    mean, last, count (int64) where it is buckets, whose step, time and ``last`` are those of their last point.
    """

    run_id: str
    name: str
    labels: dict[str, str]
    attempt: int
    kind: Literal["raw", "buckets"]
    columns: dict[str, NDArray[Any]]
    is_superseded: bool = False  # a part that a newer attempt hides, at the steps that it has again


def curves(
    windows: Mapping[str, Window],
    names: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    x: Axis = "step",
    points: int = 1500,
    attempts: Attempts = "newest",
) -> tuple[dict[str, int], list[Curve]]:
    """Return the cursor of each run and the curves of its named series (of all where ``names`` is empty) in the run's
    window, as of one moment.

    ``labels`` picks the series that have at least these. At most ``points`` points or buckets per series in total
    over its attempts (at least one for each attempt): raw where they fit. ``attempts`` all adds what newer attempts
    hide, as curves of their own.
    """
    cursors: dict[str, int] = {}
    found: list[Curve] = []
    with snapshot():
        for run_id, window in windows.items():
            cursors[run_id] = Telemetry.objects.filter(run_id=run_id).values_list("cursor", flat=True).first() or 0
            rows = _chosen(run_id, names, dict(labels or {}))
            points_of = stored(run_id, rows, _overlaps(x, window))
            for row in rows:
                found += _curves(row, _visible(row, points_of, x, window, attempts), x, points)
    return cursors, found


def raw(
    run_id: str, names: Sequence[str] = (), labels: Mapping[str, str] | None = None, attempts: Attempts = "newest"
) -> Iterator[Curve]:
    """Yield all points of the run's series, a stretch at a time: series by name and labels, attempts upwards, each in
    the order (step, time, arrival). Everything is of one moment: read it to the end, or close the iterator."""
    with snapshot():
        rows = _chosen(run_id, names, dict(labels or {}))
        for row in rows:
            points_of = stored(run_id, [row])
            visible = _visible(row, points_of, "step", (None, None), attempts)
            yield from _curves(row, visible, "step", sum(columns.size for _, _, columns in visible))


def series_data(
    run_id: str,
    names: Sequence[str],
    labels: dict[str, str] | None = None,
    x: Axis = "step",
    start: float | None = None,
    end: float | None = None,
    points: int = 1500,
) -> dict[str, Any]:
    """Return the points of the named series between start and end as JSON has them: see curves().

    The answer is what was committed up to its ``cursor``, so that deltas after the cursor continue it without a hole
    and without a double.
    """
    cursors, found = curves({run_id: (start, end)}, names, labels, x, points)
    return {"cursor": cursors[run_id], "series": [document(curve) for curve in found]}


def document(curve: Curve) -> dict[str, Any]:
    """Return the curve as JSON has it."""
    return {
        "name": curve.name,
        "labels": curve.labels,
        "attempt": curve.attempt,
        "kind": curve.kind,
        **{
            name: column.tolist() if name in ("step", "time", "count") else numbers(column)
            for name, column in curve.columns.items()
        },
    }


def sparklines(run_ids: Sequence[str], name: str, points: int) -> dict[str, list[float]]:
    """Return for each run that has the series (without labels) at most ``points`` finite values, means of windows.

    A table of runs asks every few seconds: what has not grown since is not read again.
    """
    rows = Series.objects.filter(run_id__in=run_ids, name=name, labels_key="{}")
    drawn = {
        row.run_id: _spark(row.pk, (row.run_id, row.count, row.last_attempt, row.last_time), points) for row in rows
    }
    return {run_id: list(values) for run_id, values in drawn.items() if values is not None}


@lru_cache(maxsize=4096)
def _spark(series_id: int, stamp: tuple[Any, ...], points: int) -> tuple[float, ...] | None:
    """The drawing of a series as of ``stamp``, which changes with every point. None: the run is being deleted."""
    with snapshot():
        row = Series.objects.filter(pk=series_id).first()
        if row is None:
            return None
        points_of = stored(row.run_id, [row])
    visible = _visible(row, points_of, "step", (None, None))
    if not visible:
        return None
    columns = joined([columns for _, _, columns in visible])
    low, high = int(columns.steps[0]), int(columns.steps[-1])
    buckets = bucketed(columns, windows_of_steps(columns.steps, low, high, points))
    return tuple(buckets.mean[np.isfinite(buckets.mean)].tolist())


def _chosen(run_id: str, names: Sequence[str], labels: dict[str, str]) -> list[Series]:
    rows = Series.objects.filter(run_id=run_id).order_by("name", "labels_key")
    if names:
        rows = rows.filter(name__in=list(names))
    return [row for row in rows if labels.items() <= row.labels.items()]


def _visible(
    row: Series, points_of: dict[Place, list[Columns]], x: Axis, window: Window, attempts: Attempts = "newest"
) -> list[tuple[int, bool, Columns]]:
    """Return (attempt, whether it is superseded, points) of what is visible in the window, in the axis' order."""
    firsts = {int(attempt): first for attempt, first in row.firsts.items()}
    visible = []
    for attempt in sorted(attempt for series_id, attempt in points_of if series_id == row.pk):
        hidden_from = min((first for later, first in firsts.items() if later > attempt), default=None)
        columns = _within(_ordered(joined(points_of[row.pk, attempt]), x), x, window)
        hidden = np.zeros(columns.size, bool) if hidden_from is None else columns.steps >= hidden_from
        for is_superseded in (False, True) if attempts == "all" else (False,):
            part = columns.at(hidden == is_superseded)
            if part.size:
                visible.append((attempt, is_superseded, part))
    return visible


def _overlaps(x: Axis, window: Window) -> Q:
    start, end = window
    overlaps = Q()
    if start is not None:
        overlaps &= Q(**{f"last_{x}__gte": start})
    if end is not None:
        overlaps &= Q(**{f"first_{x}__lte": end})
    return overlaps


def _ordered(columns: Columns, x: Axis) -> Columns:
    """Return the points of one attempt by step (or time); within a step by time, then as they came."""
    if x == "step":
        order = order_of(columns.steps, columns.times)
    else:
        order = None if np.all(columns.times[1:] >= columns.times[:-1]) else np.argsort(columns.times, kind="stable")
    return columns if order is None else columns.at(order)


def _within(columns: Columns, x: Axis, window: Window) -> Columns:
    start, end = window
    along = columns.steps if x == "step" else columns.times
    keep = np.ones(columns.size, bool)
    if start is not None:
        keep &= along >= start
    if end is not None:
        keep &= along <= end
    return columns if keep.all() else columns.at(keep)


def _curves(row: Series, visible: list[tuple[int, bool, Columns]], x: Axis, points: int) -> list[Curve]:
    if sum(columns.size for _, _, columns in visible) <= points:
        return [
            Curve(
                row.run_id,
                row.name,
                row.labels,
                attempt,
                "raw",
                {"step": columns.steps, "time": columns.times, "value": columns.values},
                is_superseded,
            )
            for attempt, is_superseded, columns in visible
        ]
    along = [columns.steps if x == "step" else columns.times for _, _, columns in visible]
    low, high = min(part[0].item() for part in along), max(part[-1].item() for part in along)
    found = []
    for attempt, is_superseded, columns in visible:
        if x == "step":
            windows = windows_of_steps(columns.steps, low, high, points)
        else:
            windows = windows_of_times(columns.times, low, high, points)
        steps, times, *rest = bucketed(columns, windows)
        names = ("step", "time", "min", "max", "mean", "last", "count")
        drawn = dict(zip(names, (steps, times, *rest), strict=True))
        found.append(Curve(row.run_id, row.name, row.labels, attempt, "buckets", drawn, is_superseded))
    return found
