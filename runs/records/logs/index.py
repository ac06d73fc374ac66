"""The places of lines among all lines of a run that fit filters, computed from the chunks' rows. Of chunks that
overlap only the columns are decoded, no text.

The order of all lines is (placed time, attempt, rank, stream, line). Rows are kept in the order of their streams and
first lines, so it is (placed time, row, line in the row) as well.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.records.logs.chunks import Columns, Places, decode_columns, placed
from runs.records.logs.levels import DEBUG, ERROR, INFO, NAMES, NONE, WARNING
from runs.records.logs.lines import STREAMS, Filters
from runs.records.metrics.bulk import in_parts, query
from runs.records.metrics.codec import Floats
from runs.records.metrics.models import LogChunk, LogStream

ROWS = """
SELECT c.id, c.stream_id, c.first_line, c.num_lines, c.first_time, c.last_time, c.num_errors, c.num_warnings,
    c.num_infos, c.num_debugs
FROM metrics_logstream s JOIN metrics_logchunk c ON c.stream_id = s.id WHERE s.run_id = %s
"""
Flags = NDArray[np.bool_]


class Refs(NamedTuple):
    """Lines: of each the row and its number in it."""

    rows: Places
    lines: Places


class ChunkTable(NamedTuple):
    """The chunks of some streams, as arrays of one length."""

    streams: list[LogStream]  # in their order
    ids: Places
    stream: Places  # place in streams
    first_line: Places
    num_lines: Places
    first_time: Floats
    last_time: Floats
    counts: Places  # (rows, levels)

    def place(self, row: int) -> tuple[LogStream, int]:
        """Return whose lines a row has, and the number of the first."""
        return self.streams[int(self.stream[row])], int(self.first_line[row])

    def of_streams(self, wanted: Iterable[LogStream]) -> "ChunkTable":
        ids = {stream.pk for stream in wanted}
        keep = np.array([stream.pk in ids for stream in self.streams], bool)
        renumbered = np.cumsum(keep) - 1
        streams, *arrays = self
        pk, stream, *others = (array[keep[self.stream]] for array in arrays)
        return ChunkTable([one for one in streams if one.pk in ids], pk, renumbered[stream], *others)


def chunk_table_of(run_id: str) -> ChunkTable:
    """Return all chunks of the run. What reads it on stays in the same snapshot."""
    rows = LogStream.objects.filter(run_id=run_id)
    streams = sorted(rows, key=lambda row: (row.attempt, row.rank, STREAMS.index(row.name)))
    place = {row.pk: number for number, row in enumerate(streams)}
    found = [row for row in query(ROWS, [run_id]) if row[1] in place]
    numbers = np.array([(row[0], place[row[1]], *row[2:4], *row[6:]) for row in found], np.int64).reshape(-1, 8)
    times = np.array([row[4:6] for row in found], np.float64).reshape(-1, 2)
    order = np.lexsort((numbers[:, 2], numbers[:, 1]))
    numbers, times = numbers[order], times[order]
    counts = np.zeros((len(found), len(NAMES)), np.int64)
    for column, level in enumerate((ERROR, WARNING, INFO, DEBUG), 4):
        counts[:, level] = numbers[:, column]
    counts[:, NONE] = numbers[:, 3] - counts.sum(axis=1)
    pk, stream, first_line, num_lines = numbers[:, :4].T
    return ChunkTable(streams, pk, stream, first_line, num_lines, times[:, 0], times[:, 1], counts)


class Index:
    """The lines of a table that have one of some levels (all, where none is named), in their order."""

    def __init__(self, table: ChunkTable, levels: Collection[int] = ()) -> None:
        self.table = table
        self.levels = frozenset(levels)
        wanted = sorted(self.levels) or list(range(len(NAMES)))
        self.counts: Places = table.counts[:, wanted].sum(axis=1)
        self.total = int(self.counts.sum())

    @cached_property
    def _by_first(self) -> tuple[Floats, Places]:
        """Return first times in order, and how many lines the chunks before each have."""
        order = np.argsort(self.table.first_time, kind="stable")
        return self.table.first_time[order], np.cumsum(self.counts[order]) - self.counts[order]

    @cached_property
    def _by_last(self) -> tuple[Floats, Places]:
        """Return last times in order, and how many lines the chunks up to each have."""
        order = np.argsort(self.table.last_time, kind="stable")
        return self.table.last_time[order], np.cumsum(self.counts[order])

    def fits(self, columns: Columns) -> Flags:
        return np.ones(columns.size, bool) if not self.levels else np.isin(columns.levels, sorted(self.levels))

    def columns(self, rows: Places) -> Iterator[tuple[int, Columns]]:
        for part in in_parts(rows.tolist()):
            some = {int(self.table.ids[row]): row for row in part}
            for pk, data in LogChunk.objects.filter(pk__in=list(some)).values_list("pk", "columns"):
                yield some[pk], decode_columns(bytes(data))

    def order(self, row: int, columns: Columns) -> Floats:
        return placed(columns.times, float(self.table.first_time[row]))

    def lines_at(self, start: int, count: int) -> Refs:
        """Return lines start to start + count - 1 in their order, as far as there are any."""
        end = min(start + count, self.total)
        if start >= end:
            return Refs(np.zeros(0, np.int64), np.zeros(0, np.int64))
        # With so few lines in chunks that begin earlier, the first line wanted is not before; nor the last one behind.
        firsts, before = self._by_first
        low = firsts[int(np.searchsorted(before, start, "right")) - 1]
        lasts, upto = self._by_last
        high = lasts[int(np.searchsorted(upto, end, "left"))]
        table = self.table
        base = int(self.counts[table.last_time < low].sum())
        rows = np.flatnonzero((table.last_time >= low) & (table.first_time <= high) & (self.counts > 0))
        times, owners, lines = [], [], []
        for row, columns in sorted(self.columns(rows), key=lambda found: found[0]):
            order = self.order(row, columns)
            fits = self.fits(columns)
            base += int(np.count_nonzero(fits & (order < low)))
            here = np.flatnonzero(fits & (order >= low) & (order <= high))
            times.append(order[here])
            owners.append(np.full(here.size, row))
            lines.append(here)
        sequence = np.argsort(np.concatenate(times), kind="stable")[start - base : end - base]
        return Refs(np.concatenate(owners)[sequence], np.concatenate(lines)[sequence])

    def ordinals(self, refs: Refs, times: Floats) -> Places:
        """Return how many lines stand before each of these, which have these placed times in any order."""
        lasts, upto = self._by_last
        before = np.concatenate([[0], upto])[np.searchsorted(lasts, times, "left")]
        order = np.argsort(times, kind="stable")
        ordered = times[order]
        table = self.table
        low = np.searchsorted(ordered, table.first_time, "left")
        high = np.searchsorted(ordered, table.last_time, "right")
        for row, columns in self.columns(np.flatnonzero((low < high) & (self.counts > 0))):
            some = order[low[row] : high[row]]
            before[some] += self._before(row, columns, refs.rows[some], refs.lines[some], times[some])
        return before

    def _before(self, row: int, columns: Columns, rows: Places, lines: Places, times: Floats) -> Places:
        """Return how many lines of one chunk stand before each of these."""
        fits = self.fits(columns)
        order = self.order(row, columns)[fits]
        found = np.where(row < rows, np.searchsorted(order, times, "right"), np.searchsorted(order, times, "left"))
        own = rows == row
        if own.any():
            found[own] = np.concatenate([[0], np.cumsum(fits)])[lines[own]]
        return found

    def num_before(self, time: float) -> int:
        """Return how many lines are placed before ``time``."""
        return int(self.ordinals(Refs(np.full(1, -1), np.zeros(1, np.int64)), np.array([time]))[0])


def index_of(run_id: str, filters: Filters) -> Index:
    table = chunk_table_of(run_id)
    if filters.ranks or filters.stream or filters.attempt is not None:
        table = table.of_streams([stream for stream in table.streams if filters.fits(stream)])
    return Index(table, filters.levels)


def times_of(index: Index, refs: Refs) -> Floats:
    times = np.zeros(refs.rows.size)
    for row, columns in index.columns(np.unique(refs.rows)):
        here = refs.rows == row
        times[here] = index.order(row, columns)[refs.lines[here]]
    return times
