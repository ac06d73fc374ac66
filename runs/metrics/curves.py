"""Reading series: their list, their points in a window, and small drawings of them.

A restart goes back to a checkpoint, so attempts overlap in steps: from a later attempt's first step on, what older
attempts said is hidden, in summaries of the window as in its points.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from django.db.models import Q

from runs.metrics.buckets import bucketed, windows_of_steps, windows_of_times
from runs.metrics.codec import Columns, joined
from runs.metrics.delta import numbers, series_document
from runs.metrics.models import Series, Telemetry
from runs.metrics.points import Place, stored
from runs.metrics.segments import order_of
from runs.metrics.snapshot import snapshot

Axis = Literal["step", "time"]
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


def series_data(
    run_id: str,
    names: Sequence[str],
    labels: dict[str, str] | None = None,
    x: Axis = "step",
    start: float | None = None,
    end: float | None = None,
    points: int = 1500,
) -> dict[str, Any]:
    """Return the points of the named series (every series where ``names`` is empty) between start and end.

    ``labels`` picks the series that have at least these. Each series comes once per attempt that is visible in the
    window: raw, or in buckets where it has more than ``points``. The answer is what was committed up to its
    ``cursor``, so that deltas after the cursor continue it without a hole and without a double.
    """
    with snapshot():
        cursor = Telemetry.objects.filter(run_id=run_id).values_list("cursor", flat=True).first() or 0
        rows = _chosen(run_id, names, labels or {})
        points_of = stored(run_id, rows, _overlaps(x, (start, end)))
    series: list[dict[str, Any]] = []
    for row in rows:
        series += _documents(row, _visible(row, points_of, x, (start, end)), x, (start, end), points)
    return {"cursor": cursor, "series": series}


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
    columns = joined([columns for _, columns in visible])
    low, high = int(columns.steps[0]), int(columns.steps[-1])
    buckets = bucketed(columns, windows_of_steps(columns.steps, low, high, points))
    return tuple(buckets.mean[np.isfinite(buckets.mean)].tolist())


def _chosen(run_id: str, names: Sequence[str], labels: dict[str, str]) -> list[Series]:
    rows = Series.objects.filter(run_id=run_id).order_by("name", "labels_key")
    if names:
        rows = rows.filter(name__in=list(names))
    return [row for row in rows if labels.items() <= row.labels.items()]


def _visible(row: Series, points_of: dict[Place, list[Columns]], x: Axis, window: Window) -> list[tuple[int, Columns]]:
    """Return (attempt, points) of each attempt that has visible points in the window, in the order of the axis."""
    firsts = {int(attempt): first for attempt, first in row.firsts.items()}
    visible = []
    for attempt in sorted(attempt for series_id, attempt in points_of if series_id == row.pk):
        hidden_from = min((first for later, first in firsts.items() if later > attempt), default=None)
        columns = _within(_ordered(joined(points_of[row.pk, attempt]), x), x, window, hidden_from)
        if columns.size:
            visible.append((attempt, columns))
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


def _within(columns: Columns, x: Axis, window: Window, hidden_from: int | None) -> Columns:
    start, end = window
    along = columns.steps if x == "step" else columns.times
    keep = np.ones(columns.size, bool)
    if start is not None:
        keep &= along >= start
    if end is not None:
        keep &= along <= end
    if hidden_from is not None:
        keep &= columns.steps < hidden_from
    return columns if keep.all() else columns.at(keep)


def _documents(
    row: Series, visible: list[tuple[int, Columns]], x: Axis, window: Window, points: int
) -> Iterable[dict[str, Any]]:
    """Return one document per attempt; the windows are the same for all of them."""
    if sum(columns.size for _, columns in visible) <= points:
        return [
            {"kind": "raw", **series_document(row.name, row.labels, attempt, columns)} for attempt, columns in visible
        ]
    along = [columns.steps if x == "step" else columns.times for _, columns in visible]
    low, high = min(part[0].item() for part in along), max(part[-1].item() for part in along)
    if x == "step":
        windows = [windows_of_steps(columns.steps, low, high, points) for _, columns in visible]
    else:
        windows = [windows_of_times(columns.times, low, high, points) for _, columns in visible]
    documents = []
    for (attempt, columns), numbered in zip(visible, windows, strict=True):
        buckets = bucketed(columns, numbered)
        documents.append(
            {
                "name": row.name,
                "labels": row.labels,
                "attempt": attempt,
                "kind": "buckets",
                "step": buckets.steps.tolist(),
                "time": buckets.times.tolist(),
                "min": numbers(buckets.min),
                "max": numbers(buckets.max),
                "mean": numbers(buckets.mean),
                "last": numbers(buckets.last),
                "count": buckets.counts.tolist(),
            }
        )
    return documents
