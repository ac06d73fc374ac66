"""A measure of all ranks as one grid: a row for each rank, a column for each window of steps.

It is read from the same pyramid as a chart, so that its cost goes by the cells that are drawn and not by the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics.codec import Floats
from runs.records.points.charts.series import Curve, Window, curves
from runs.records.points.charts.windows import level_of

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
