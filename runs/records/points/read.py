"""Reading points: the one door for everybody outside of this folder."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypedDict

import numpy as np
from django.db.models import Count, Q, TextField
from django.db.models.functions import Cast
from numpy.typing import NDArray

from runs.records.metrics.codec import Floats
from runs.records.metrics.models import Series
from runs.records.metrics.progress import snapshot
from runs.records.points.blocks import decode_block
from runs.records.points.charts.series import (
    Curve,
    RowFigures,
    TooManyPoints,
    Window,
    curves,
    last_of,
    raw,
    row_figures,
    spans_of,
    sparklines,
    steady_medians,
    stream,
)
from runs.records.points.charts.zoom import draw, level_of
from runs.records.points.segments import decoded
from trainyard.contract.answers import runs as answers

__all__ = [  # of other modules of this folder
    "Curve",
    "RowFigures",
    "TooManyPoints",
    "curves",
    "decode_block",
    "decoded",
    "raw",
    "row_figures",
    "sparklines",
    "steady_medians",
]

RUNS_AT_ONCE = 1_000
MEANS_AT_ONCE = 100
MOST_SUMMARISED = 2_000  # series of a run, in a document of it
LOOKED_AT = Q(name__startswith="train/") | Q(name__startswith="val/")  # at first


def short_summaries(run_ids: Sequence[str]) -> dict[str, dict[str, answers.SeriesSummary]]:
    """Return summaries() of every series, but of a run with more than MOST_SUMMARISED of so many of them alone."""
    counts = Series.objects.filter(run_id__in=run_ids).order_by().values_list("run_id").annotate(count=Count("pk"))
    wide = {run_id for run_id, _ in counts.filter(count__gt=MOST_SUMMARISED)}
    found = summaries([run_id for run_id in run_ids if run_id not in wide])
    for run_id in wide:
        found |= summaries([run_id], name__in={one["name"] for one in names_of([run_id], limit=MOST_SUMMARISED)})
    return found


def summaries(run_ids: Sequence[str], **which: object) -> dict[str, dict[str, answers.SeriesSummary]]:
    """Return {run: {series name: {last, min, max, count}}}, of every series or ``which``, by name. Series that differ
    in labels only are one here: the extremes and the count over all, the last of the one without labels, else of the
    one with the newest point."""
    found: dict[str, dict[str, answers.SeriesSummary]] = {run_id: {} for run_id in run_ids}
    rows = sorted(
        with_figures(run_ids, **which), key=lambda pair: (pair[0].last_attempt, pair[0].last_time or 0.0, pair[0].pk)
    )
    for row, seen in sorted(rows, key=lambda pair: pair[0].labels_key == "{}"):
        summary = found[row.run_id].setdefault(row.name, {"last": None, "min": None, "max": None, "count": 0})
        summary["last"] = last_of(row)
        summary["min"] = _of_both(min, summary["min"], seen.min)
        summary["max"] = _of_both(max, summary["max"], seen.max)
        summary["count"] += seen.count
    return found


class RunFigures(NamedTuple):
    """Figures of a series of a run, as ``summaries`` has them; ``last`` may be the word of what is not finite."""

    last: float | str | None
    min: float | None
    max: float | None


def figures(name: str, run_ids: Sequence[str] | None = None) -> Iterator[tuple[str, RunFigures]]:
    """Yield the figures of the series of that name of each run that has it, of all or of these runs.

    It reads a row for each series, in the order of an index; a series that a newer attempt began again is read anew.
    """
    found = Series.objects.filter(name=name, **({} if run_ids is None else {"run_id__in": run_ids}))
    # Of the attempts only whether there are several counts: as text they need not be read.
    firsts = Cast("firsts", TextField())
    columns = ("run_id", firsts, "labels_key", "last_attempt", "last_time", "pk", "last_text", "last", "min", "max")
    restarted: list[str] = []
    for run, rows in groupby(found.order_by("run_id").values_list(*columns).iterator(5_000), itemgetter(0)):
        some = list(rows)
        if any("," in row[1] for row in some):
            restarted.append(run)
            continue
        *_, word, last, low, high = some[0]
        if len(some) > 1:
            *_, word, last, _, _ = max(some, key=lambda row: (row[2] == "{}", row[3], row[4] or 0.0, row[5]))
            low = min((row[8] for row in some if row[8] is not None), default=None)
            high = max((row[9] for row in some if row[9] is not None), default=None)
        yield run, RunFigures(word or last, low, high)
    for first in range(0, len(restarted), RUNS_AT_ONCE):
        for run, seen in summaries(restarted[first : first + RUNS_AT_ONCE], name=name).items():
            yield run, RunFigures(seen[name]["last"], seen[name]["min"], seen[name]["max"])


def means(name: str, run_ids: Sequence[str] | None = None) -> Iterator[tuple[str, float]]:
    """Yield of each run that has the series the mean over all of its points that are seen, whatever their labels, but
    those that are NaN. It is read from the coarsest buckets of the pyramid."""
    named = Series.objects.filter(name=name, **({} if run_ids is None else {"run_id__in": run_ids}))
    every = list(named.order_by("run_id").values_list("run_id", flat=True).distinct())
    for first in range(0, len(every), MEANS_AT_ONCE):
        some = every[first : first + MEANS_AT_ONCE]
        sums = dict.fromkeys(some, (0.0, 0))
        for curve in curves(dict.fromkeys(some, (None, None)), [name], points=2)[1]:
            columns = curve.columns
            values, counts = columns["mean" if "mean" in columns else "value"], columns.get("count")
            is_number = ~np.isnan(values)
            weights = is_number.astype(np.int64) if counts is None else counts * is_number
            total, count = sums[curve.run_id]
            total += float((np.where(is_number, values, 0.0) * weights).sum())
            sums[curve.run_id] = total, count + int(weights.sum())
        yield from ((run, total / count) for run, (total, count) in sums.items() if count)


def series_names(run_ids: Sequence[str]) -> list[str]:
    return sorted(Series.objects.filter(run_id__in=list(run_ids)).order_by().values_list("name", flat=True).distinct())


def last_steps(run_ids: Sequence[str], name: str) -> dict[str, int]:
    """Return how far each run has the series, over all of its labels."""
    rows = Series.objects.filter(run_id__in=list(run_ids), name=name, last_step__isnull=False).order_by("last_step")
    return {row.run_id: row.last_step for row in rows if row.last_step is not None}


def _of_both(choose: Callable[[Iterable[float]], float], one: float | None, other: float | None) -> float | None:
    numbers = [number for number in (one, other) if number is not None]
    return choose(numbers) if numbers else None


# A measure of all ranks as one grid: a row for each rank, a column for each window of steps.
#
# It is read from the same pyramid as a chart, so that its cost goes by the cells that are drawn and not by the steps.

MAX_CELLS = 600_000
LEAST_COLUMNS = 16
MOST_RANKS = 4096


class Grid(NamedTuple):
    """``values`` has the shape (names, ranks, columns): means over the points of a cell, NaN where there is none.

    Column ``n`` holds the steps from ``first_step + n * width`` on, ``width`` of them.
    """

    ranks: list[int]
    first_step: int
    width: int
    values: NDArray[np.float64]
    cursor: int

    @property
    def num_columns(self) -> int:
        return int(self.values.shape[2])


def grid(run_id: str, names: Sequence[str], window: Window = (None, None), *, columns: int = 400) -> Grid:
    """Return the named series of all ranks (those with the label ``rank``) between two steps, both included.

    The newest attempt counts at each step. There are at most ``columns`` columns, fewer where the ranks are many.
    """
    cursors, found = curves({run_id: window}, names, points=2 * columns)
    by_rank = [(rank, curve) for curve in found if (rank := _rank_of(curve)) is not None and curve.columns["step"].size]
    ranks = sorted({rank for rank, _ in by_rank})[:MOST_RANKS]
    if not ranks:
        return Grid([], 0, 1, np.zeros((len(names), 0, 0)), cursors[run_id])
    low = min(int(curve.columns["step"].min()) for _, curve in by_rank)
    high = max(int(curve.columns["step"].max()) for _, curve in by_rank)
    level = level_of([(low, high)], max(LEAST_COLUMNS, min(columns, MAX_CELLS // (len(ranks) * len(names)))))
    first, num_columns = low >> level, (high >> level) - (low >> level) + 1
    shape = (len(names), len(ranks), num_columns)
    totals, counts = np.zeros(shape), np.zeros(shape)
    places = {rank: place for place, rank in enumerate(ranks)}
    for rank, curve in by_rank:
        if rank in places:
            cells = (curve.columns["step"] >> level) - first
            values, weights = _means(curve)
            at = names.index(curve.name), places[rank]
            totals[at] += np.bincount(cells, values * weights, num_columns)
            counts[at] += np.bincount(cells, weights, num_columns)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Grid(ranks, first << level, 1 << level, totals / counts, cursors[run_id])


def _rank_of(curve: Curve) -> int | None:
    """Return the rank of a series that has this label alone."""
    rank = curve.labels.get("rank", "")
    return int(rank) if len(curve.labels) == 1 and rank.isdecimal() and len(rank) < 8 else None


def _means(curve: Curve) -> tuple[Floats, Floats]:
    """Return the values of a curve's points or buckets and how many points each stands for, none where it is no finite
    number."""
    if curve.kind == "raw":
        values, weights = curve.columns["value"], np.ones(curve.columns["value"].size)
    else:
        values, weights = curve.columns["mean"], curve.columns["count"].astype(np.float64)
    is_finite = np.isfinite(values)
    return np.where(is_finite, values, 0.0), np.where(is_finite, weights, 0.0)


# The list of series, and the figures of each: of the points that are seen, which are not all that are stored.

MAX_KNOWN = 100_000


@dataclass(frozen=True)
class Figures:
    """Number of visible points of a series, and the least and the greatest finite value of them."""

    count: int
    min: float | None
    max: float | None


_known: dict[tuple[Any, ...], Figures] = {}  # by series and what changes with every point


class SeriesItemOfRun(answers.Series):
    run: str


class NamedSeries(TypedDict):
    run: str
    name: str
    labels: dict[str, str] | None


def series_list(run_id: str) -> list[answers.Series]:
    """Return every series of the run as PRODUCT's items, by name and labels."""
    return [_item(row, seen) for row, seen in with_figures([run_id])]


def series_lists(run_ids: Sequence[str]) -> list[SeriesItemOfRun]:
    """Return the same of many runs, by name, labels and run; each item has its ``run``."""
    return [{"run": row.run_id, **_item(row, seen)} for row, seen in with_figures(run_ids)]


def names_of(
    run_ids: Sequence[str], part: str = "", names: Sequence[str] = (), limit: int | None = None
) -> list[NamedSeries]:
    """Return what the series of many runs are called, by name, labels and run: of 20,000 in a tenth of the time. Only
    those whose name has ``part``, in any case, and is among ``names``, if there are any. Where there are ``limit`` or
    more, each name is there once, without its labels, and what people look at comes first."""
    rows = Series.objects.filter(run_id__in=run_ids).order_by("name", "labels_key", "run_id")
    rows = rows.filter(name__icontains=part) if part else rows
    rows = rows.filter(name__in=names) if names else rows
    found = list(rows.values_list("run_id", "name", "labels")[:limit])
    if limit is None or len(found) < limit:
        return [{"run": run, "name": name, "labels": labels} for run, name, labels in found]
    once = rows.order_by("name", "run_id").values_list("run_id", "name").distinct()
    first = list(once.filter(LOOKED_AT)[:limit])
    first += once.exclude(LOOKED_AT)[: limit - len(first)]
    return [{"run": run, "name": name, "labels": None} for run, name in first]


def _item(row: Series, seen: Figures) -> answers.Series:
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


def with_figures(run_ids: Sequence[str], **which: object) -> list[tuple[Series, Figures]]:
    """Return the series of the runs, or ``which``, with their figures, by name, labels and run.

    A row counts what is stored. Where a newer attempt hides some of it, what is seen is read: mostly from the pyramid,
    and not again until the series has grown.
    """
    with snapshot():
        rows = list(Series.objects.filter(run_id__in=run_ids, **which).order_by("name", "labels_key", "run_id"))
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
