"""Reading series: their list, their points in a window, and small drawings of them.

A restart goes back to a checkpoint, so attempts overlap in steps: from a later attempt's first step on, what older
attempts said is hidden, in summaries of the window as in its points.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from django.db.models import Min, Q

from runs.metrics.buckets import bucketed, windows_of_steps, windows_of_times
from runs.metrics.codec import Columns, decode, joined
from runs.metrics.delta import numbers, series_document
from runs.metrics.models import Segment, Series, Telemetry

Axis = Literal["step", "time"]
MAX_SPARK_SEGMENTS = 128
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
    cursor = Telemetry.objects.filter(run_id=run_id).values_list("cursor", flat=True).first() or 0
    series: list[dict[str, Any]] = []
    for row in _chosen(run_id, names, labels or {}):
        visible = _visible(row, x, (start, end), cursor)
        series += _documents(row, visible, x, (start, end), points)
    return {"cursor": cursor, "series": series}


def sparklines(run_ids: Sequence[str], name: str, points: int) -> dict[str, list[float]]:
    """Return for each run that has the series (without labels) at most ``points`` finite values, means of windows.

    A table of runs asks every few seconds: what has not grown since is not read again, and of a series in very many
    segments evenly spread ones are enough for a drawing of this size.
    """
    rows = Series.objects.filter(run_id__in=run_ids, name=name, labels_key="{}")
    drawn = {
        row.run_id: _spark(row.pk, (row.run_id, row.count, row.last_attempt, row.last_time), points) for row in rows
    }
    return {run_id: list(values) for run_id, values in drawn.items() if values is not None}


@lru_cache(maxsize=4096)
def _spark(series_id: int, stamp: tuple[Any, ...], points: int) -> tuple[float, ...] | None:
    """The drawing of a series as of ``stamp``, which changes with every point. None: the run is being deleted."""
    row = Series(pk=series_id)
    ids = Segment.objects.filter(series=row).order_by("attempt", "first_step", "id").values_list("pk", flat=True)
    known = list(ids)
    stride = 1 + len(known) // (MAX_SPARK_SEGMENTS + 1)
    chosen = {*known[::stride], *known[-1:]} if stride > 1 else None
    visible = _visible(row, "step", (None, None), None, chosen)
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


def _visible(
    row: Series, x: Axis, window: Window, cursor: int | None, chosen: set[int] | None = None
) -> list[tuple[int, Columns]]:
    """Return (attempt, points) of each attempt that has visible points in the window, in the order of the axis.

    ``chosen`` are the segments to read, where not all of them are needed.
    """
    segments = Segment.objects.filter(series=row)
    if cursor is not None:
        segments = segments.filter(cursor__lte=cursor)
    firsts = {
        item["attempt"]: item["first"]
        for item in segments.order_by().values("attempt").annotate(first=Min("first_step"))
    }
    found: dict[int, list[Segment]] = {}
    wanted = segments.filter(_overlaps(x, window))
    if chosen is not None:
        wanted = wanted.filter(pk__in=chosen)
    for segment in wanted.order_by("attempt", "producer", "sequence", "id"):
        found.setdefault(segment.attempt, []).append(segment)
    visible = []
    for attempt, members in sorted(found.items()):
        hidden_from = min((first for later, first in firsts.items() if later > attempt), default=None)
        columns = _within(_ordered(members, x), x, window, hidden_from)
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


def _ordered(segments: list[Segment], x: Axis) -> Columns:
    """Return the points of one attempt by step (or time); within a step by time, producer and sequence.

    The segments come in the order of producer and sequence, and every sort here is stable.
    """
    columns = joined([decode(bytes(segment.data)) for segment in segments])
    along = columns.steps if x == "step" else columns.times
    if np.all(along[1:] > along[:-1]):
        return columns
    order = np.lexsort((columns.times, columns.steps) if x == "step" else (columns.times,))
    return columns.at(order)


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
