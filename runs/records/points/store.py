"""Writing points as segments and blocks, with the running summary of each series; log lines: see log_writing.

Called inside the transaction of a batch. Frames and watermarks are the business of runs.ingest.commit.
"""

import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from runs.records.logs.writing import StreamLines, write_lines
from runs.records.metrics import bulk
from runs.records.metrics.codec import Columns, Floats, Steps, word_of
from runs.records.metrics.models import Block, Series
from runs.records.points.blocks import encode_block
from runs.records.points.segments import Stretch, write_segments
from runs.records.points.tables import Key, PointMatrix, SeriesGroup, SeriesPiece

SUMMARY = (
    "count", "first_step", "firsts", "last_step", "last_time", "last", "last_text", "last_attempt", "min", "max",
)  # fmt: skip
__all__ = ["SeriesPiece", "SeriesTable", "StreamLines", "write_lines", "write_matrices"]

DIRECT = 2048  # so many points of a series in one batch become a segment at once


def write_matrices(
    table: "SeriesTable", *, attempt: int, cursor: int, matrices: Iterable[PointMatrix]
) -> list[PointMatrix]:
    """Store matrices, large ones as segments and the small ones together as a block, and fold them into their series'
    summaries. Returns what was stored: not the series that would be too many for the run."""
    matrices = list(matrices)
    table.find(matrix.head for matrix in matrices)
    kept: list[tuple[list[int], PointMatrix]] = []
    touched: dict[int, Summary] = {}
    for matrix in matrices:
        rows = [table.rows.get(key) for key in matrix.head.keys]
        found = [row for row in rows if row is not None]
        if not found:
            continue
        if len(found) < len(rows):
            matrix = matrix.only([place for place, row in enumerate(rows) if row is not None])
        fold(found, attempt, matrix)
        touched.update((row.pk, row) for row in found)
        kept.append(([row.pk for row in found], matrix))
    save(touched.values())
    _write(table.run_id, attempt, cursor, kept)
    return [matrix for _, matrix in kept]


def _write(run_id: str, attempt: int, cursor: int, kept: list[tuple[list[int], PointMatrix]]) -> None:
    small = [(ids, matrix) for ids, matrix in kept if matrix.steps.size < DIRECT]
    large = [
        Stretch(pk, cursor, Columns(matrix.steps, matrix.times, values))
        for ids, matrix in kept
        if matrix.steps.size >= DIRECT
        for pk, values in zip(ids, matrix.values, strict=True)
    ]
    if small:
        count = sum(matrix.num_points for _, matrix in small)
        row = (run_id, attempt, cursor, count, encode_block(small))
        bulk.insert(Block, ("run_id", "attempt", "cursor", "count", "data"), [row])
    if large:
        write_segments(run_id, attempt, large)


# The running summary of each series of a run: how many points, the extremes, the last.
#
# Rows are read once and then known: who writes them holds the run's lock, and finds by the run's cursor whether
# somebody else has written meanwhile (see runs.ingest.memory).


@dataclass(slots=True)
class Summary:
    """A row of Series, without its name."""

    pk: int
    count: int = 0
    first_step: int | None = None
    firsts: dict[str, int] = field(default_factory=dict)
    last_step: int | None = None
    last_time: float | None = None
    last: float | None = None
    last_text: str = ""
    last_attempt: int = 0
    min: float | None = None
    max: float | None = None
    firsts_text: str = "{}"

    @property
    def values(self) -> tuple[object, ...]:
        """The columns of SUMMARY and the key, as runs.records.metrics.bulk takes them."""
        return (
            self.count, self.first_step, self.firsts_text, self.last_step, self.last_time, self.last, self.last_text,
            self.last_attempt, self.min, self.max, self.pk,
        )  # fmt: skip


class SeriesTable:
    """The series of one run, as far as they were needed."""

    def __init__(self, run_id: str, *, at_most: int = sys.maxsize) -> None:
        self.run_id = run_id
        self.at_most = at_most  # more series than this are not made
        self.rows: dict[Key, Summary] = {}
        self._num_series: int | None = None  # in the database; None: not counted yet

    def find(self, heads: Iterable[SeriesGroup]) -> None:
        """Read or make the rows of these series. What would be beyond the limit stays unknown."""
        wanted = {key: head for head in heads for key in head.keys if key not in self.rows}
        if not wanted or len(self.rows) >= self.at_most:
            return
        self._read({name for name, _ in wanted})
        if new := [(key, head) for key, head in wanted.items() if key not in self.rows]:
            self._make(new)

    def _read(self, names: set[str]) -> None:
        columns = ("name", "labels_key", "pk", *SUMMARY)
        for some in bulk.in_parts(sorted(names)):
            rows = Series.objects.filter(run_id=self.run_id, name__in=some)
            for name, key, *values in rows.values_list(*columns):
                row = self.rows[name, key] = Summary(*values)
                row.firsts_text = json.dumps(row.firsts)

    def _make(self, new: list[tuple[Key, SeriesGroup]]) -> None:
        if self._num_series is None:
            self._num_series = Series.objects.filter(run_id=self.run_id).count()
        new = new[: max(0, self.at_most - self._num_series)]
        made = Series.objects.bulk_create(
            Series(run_id=self.run_id, name=name, labels=head.labels, labels_key=key) for (name, key), head in new
        )
        self._num_series += len(made)
        for row in made:
            self.rows[row.name, row.labels_key] = Summary(row.pk)


def save(rows: Iterable[Summary]) -> None:
    bulk.update(Series, SUMMARY, [row.values for row in rows])


def fold(rows: Sequence[Summary], attempt: int, matrix: PointMatrix) -> None:
    """Add a matrix's points to the summaries of its series, in their order. ``last`` is the point at the right edge of
    the chart: of the newest attempt, the largest step, and of these the latest; ``last_step`` is its step."""
    steps, times, values = matrix.steps, matrix.times, matrix.values
    num_points, first, index = steps.size, int(steps.min()), place_of_last(steps, times)
    newest = (attempt, int(steps[index]), float(times[index]))
    lows, highs = _extremes(values)
    for row, low, high, last in zip(rows, lows, highs, values[:, index].tolist(), strict=True):
        row.count += num_points
        if row.first_step is None or first < row.first_step:
            row.first_step = first
        if first < row.firsts.get(str(attempt), math.inf):
            row.firsts = {**row.firsts, str(attempt): first}
            row.firsts_text = json.dumps(row.firsts)
        if low <= high:  # else none of them is finite
            row.min = low if row.min is None or low < row.min else row.min
            row.max = high if row.max is None or high > row.max else row.max
        if row.last_step is None or row.last_time is None or newest >= (
            row.last_attempt, row.last_step, row.last_time
        ):  # fmt: skip
            row.last_attempt, row.last_step, row.last_time = newest
            row.last = last if math.isfinite(last) else None
            row.last_text = word_of(last)


def place_of_last(steps: Steps, times: Floats) -> int:
    """Return the place of the point with the largest step, of these of the latest, of these of the last that came."""
    at_end = np.flatnonzero(steps == steps.max())
    if at_end.size == 1:
        return int(at_end[0])
    return int(at_end[np.flatnonzero(times[at_end] == times[at_end].max())[-1]])


def _extremes(values: Floats) -> tuple[list[float], list[float]]:
    """Return the least and the greatest finite value of each row; infinity and minus infinity where there is none."""
    finite = np.isfinite(values)
    if finite.all():
        return values.min(axis=1).tolist(), values.max(axis=1).tolist()
    lows, highs = np.where(finite, values, np.inf), np.where(finite, values, -np.inf)
    return lows.min(axis=1).tolist(), highs.max(axis=1).tolist()
