"""The list of series, and the figures of each: of the points that are seen, which are not all that are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from runs.records.metrics.codec import Floats
from runs.records.metrics.models import Series
from runs.records.metrics.progress import snapshot
from runs.records.points.charts.exports import stream
from runs.records.points.charts.series import last_of, spans_of
from runs.records.points.charts.zoom import draw

MAX_KNOWN = 100_000


@dataclass(frozen=True)
class Figures:
    """Number of visible points of a series, and the least and the greatest finite value of them."""

    count: int
    min: float | None
    max: float | None


_known: dict[tuple[Any, ...], Figures] = {}  # by series and what changes with every point


class SeriesItem(TypedDict):
    """A series in a list; ``last`` may be the word of a value that is not finite."""

    name: str
    labels: dict[str, str]
    count: int
    first_step: int | None
    last_step: int | None
    last: float | str | None
    min: float | None
    max: float | None


class SeriesItemOfRun(SeriesItem):
    run: str


def series_list(run_id: str) -> list[SeriesItem]:
    """Return every series of the run as PRODUCT's items, by name and labels."""
    return [_item(row, seen) for row, seen in with_figures([run_id])]


def series_lists(run_ids: Sequence[str]) -> list[SeriesItemOfRun]:
    """Return the same of many runs, by name, labels and run; each item has its ``run``."""
    return [{"run": row.run_id, **_item(row, seen)} for row, seen in with_figures(run_ids)]


def _item(row: Series, seen: Figures) -> SeriesItem:
    return {
        "name": row.name,
        "labels": row.labels,
        "count": seen.count,
        "first_step": row.first_step,
        "last_step": row.last_step,
        "last": last_of(row),
        "min": seen.min,
        "max": seen.max,
    }


def with_figures(run_ids: Sequence[str]) -> list[tuple[Series, Figures]]:
    """Return the series of the runs with their figures, by name, labels and run.

    A row counts what is stored. Where a newer attempt hides some of it, what is seen is read: mostly from the pyramid,
    and not again until the series has grown.
    """
    with snapshot():
        rows = list(Series.objects.filter(run_id__in=run_ids).order_by("name", "labels_key", "run_id"))
        found = {row.pk: Figures(row.count, row.min, row.max) for row in rows if len(row.firsts) < 2}
        keys = {row.pk: (row.pk, row.count, row.last_attempt, row.last_time) for row in rows if row.pk not in found}
        found |= {pk: seen for pk, key in keys.items() if (seen := _known.get(key)) is not None}
        read = _read([row for row in rows if row.pk not in found])
    if len(_known) > MAX_KNOWN:
        _known.clear()
    _known.update((keys[pk], seen) for pk, seen in read.items())
    found |= read
    return [(row, found[row.pk]) for row in rows]


def _read(rows: Sequence[Series]) -> dict[int, Figures]:
    runs = {row.pk: row.run_id for row in rows}
    counts, values = dict.fromkeys(runs, 0), {pk: [np.zeros(0)] for pk in runs}
    spans = [[span for span, _ in spans_of(row, "step", (None, None), "newest")] for row in rows]
    for span, kind, columns in draw(sorted(set(runs.values())), spans, "step", 1):
        pk = span.place[0]
        counts[pk] += int(columns["count"].sum()) if kind == "buckets" else columns["value"].size
        extremes = [columns["value"]] if kind == "raw" else [columns["min"], columns["max"]]
        if kind == "buckets" and np.isinf(extremes).any():  # which finite ones lie behind an infinity is not known
            extremes = [part.values for part in stream(runs[pk], span)]
        values[pk] += extremes
    return {pk: Figures(counts[pk], *_extremes(np.concatenate(values[pk]))) for pk in runs}


def _extremes(values: Floats) -> tuple[float | None, float | None]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (None, None)
