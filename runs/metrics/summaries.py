"""The running summary of each series: how many points, the extremes, the last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from runs.metrics.codec import Columns
from runs.metrics.models import Series

NAMES_PER_QUERY = 500  # SQLite bounds the variables of a statement
SUMMARY = (
    "count", "first_step", "firsts", "last_step", "last_time", "last", "last_text", "last_attempt", "min", "max",
)  # fmt: skip

Key = tuple[str, str]  # name, labels as canonical JSON


def fold_into_rows(
    run_id: str, attempt: int, points: Mapping[Key, tuple[dict[str, str], Sequence[Columns]]]
) -> dict[Key, int]:
    """Fold new points into the series' rows (made where missing) and return the rows' ids."""
    known = {(row.name, row.labels_key): row for row in _rows(run_id, {name for name, _ in points})}
    rows = []
    for (name, labels_key), (labels, columns) in points.items():
        old = known.get((name, labels_key))
        row = Series(run_id=run_id, name=name, labels=labels, labels_key=labels_key)
        if old is not None:
            for column in SUMMARY:
                setattr(row, column, getattr(old, column))
        for part in columns:
            fold(row, attempt, part)
        rows.append(row)
    # One statement for old and new rows alike; it fills in the primary keys of both.
    Series.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["run_id", "name", "labels_key"], update_fields=SUMMARY
    )
    return {(row.name, row.labels_key): row.pk for row in rows}


def _rows(run_id: str, names: Iterable[str]) -> Iterator[Series]:
    ordered = sorted(names)
    for start in range(0, len(ordered), NAMES_PER_QUERY):
        yield from Series.objects.filter(run_id=run_id, name__in=ordered[start : start + NAMES_PER_QUERY])


def fold(row: Series, attempt: int, columns: Columns) -> None:
    """Add points to a summary. ``last`` is the point at the right edge of the chart: of the newest attempt, the
    largest step, and of these the latest; ``last_step`` is its step."""
    steps, times, values = columns
    finite = values[np.isfinite(values)]
    row.count += steps.size
    first = int(steps.min())
    row.first_step = first if row.first_step is None else min(row.first_step, first)
    row.firsts[str(attempt)] = min(first, row.firsts.get(str(attempt), first))
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        row.min = low if row.min is None else min(row.min, low)
        row.max = high if row.max is None else max(row.max, high)
    at_end = np.flatnonzero(steps == steps.max())
    index = int(at_end[np.flatnonzero(times[at_end] == times[at_end].max())[-1]])
    newest = (attempt, int(steps[index]), float(times[index]))
    if row.last_step is None or row.last_time is None or newest >= (row.last_attempt, row.last_step, row.last_time):
        value = float(values[index])
        row.last_attempt, row.last_step, row.last_time = newest
        row.last = value if math.isfinite(value) else None
        row.last_text = text_of(value)


def text_of(value: float) -> str:
    """Return the JSON word of a value that is not finite, and "" for every other."""
    if math.isfinite(value):
        return ""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
