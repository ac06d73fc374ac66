"""Reading points: the one door for everybody outside of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from runs.records.metrics.models import Series
from runs.records.points.blocks import decode_block
from runs.records.points.charts.grid import Grid, grid
from runs.records.points.charts.listing import SeriesItem, SeriesItemOfRun, series_list, series_lists, with_figures
from runs.records.points.charts.series import (
    Curve,
    RowFigures,
    SeriesData,
    TooManyPoints,
    curves,
    last_of,
    raw,
    row_figures,
    series_data,
    sparklines,
    steady_medians,
)
from runs.records.points.segments import decoded
from trainyard.contract.answers.runs import SeriesSummary

__all__ = [
    "Curve",
    "Grid",
    "RowFigures",
    "SeriesData",
    "SeriesItem",
    "SeriesItemOfRun",
    "TooManyPoints",
    "curves",
    "decode_block",
    "decoded",
    "grid",
    "last_steps",
    "raw",
    "row_figures",
    "series_data",
    "series_list",
    "series_lists",
    "sparklines",
    "steady_medians",
    "summaries",
]


def summaries(run_ids: Sequence[str]) -> dict[str, dict[str, SeriesSummary]]:
    """Return {run: {series name: {last, min, max, count}}}. Series that differ in labels only are one here: the
    extremes and the count over all, the last of the one without labels, else of the one with the newest point."""
    found: dict[str, dict[str, SeriesSummary]] = {run_id: {} for run_id in run_ids}
    rows = sorted(with_figures(run_ids), key=lambda pair: (pair[0].last_attempt, pair[0].last_time or 0.0, pair[0].pk))
    for row, seen in sorted(rows, key=lambda pair: pair[0].labels_key == "{}"):
        summary = found[row.run_id].setdefault(row.name, {"last": None, "min": None, "max": None, "count": 0})
        summary["last"] = last_of(row)
        summary["min"] = _of_both(min, summary["min"], seen.min)
        summary["max"] = _of_both(max, summary["max"], seen.max)
        summary["count"] += seen.count
    return found


def last_steps(run_ids: Sequence[str], name: str) -> dict[str, int]:
    """Return how far each run has the series, over all of its labels."""
    rows = Series.objects.filter(run_id__in=list(run_ids), name=name, last_step__isnull=False).order_by("last_step")
    return {row.run_id: row.last_step for row in rows if row.last_step is not None}


def _of_both(choose: Callable[[Iterable[float]], float], one: float | None, other: float | None) -> float | None:
    numbers = [number for number in (one, other) if number is not None]
    return choose(numbers) if numbers else None
