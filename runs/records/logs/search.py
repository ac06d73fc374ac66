"""Searching a log for a text, for a bounded time.

Chunks are searched by their first times. A hit is returned once no unopened chunk can hold an older line, so hits come
oldest first over all ranks. When the time is over, everything before the cursor was searched; the cursor is a line's
key, which compaction does not change.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple, TypedDict

import numpy as np

from runs.records.logs.chunks import ChunkPlace, Columns, decode_columns
from runs.records.logs.index import Index, Refs, index_of
from runs.records.logs.lines import Filters, Key, LineDocument, document, key_in, key_of, line_behind
from runs.records.logs.patterns import Pattern, Spans
from runs.records.logs.read import BadCursor
from runs.records.logs.windows import cut
from runs.records.metrics.models import LogChunk
from runs.records.metrics.progress import snapshot
from runs.values.cursors import cursor_of, value_of

CHUNKS_PER_QUERY = 16  # of up to 512 KB of text each, compressed
OVERRUN_S = 5.0  # so long it goes on behind its deadline to spare the next call what it has open
END = float("inf")


class TooSlow(ValueError):
    """A search that cannot even come to a place from which one could go on."""


class _Hit(NamedTuple):
    """A line that was found. Hits sort as lines do: rows are in the order of their streams."""

    time: float  # as it is placed
    row: int
    line: int  # in its row
    logged_at: float  # the time by the rank's clock
    level: int
    text: bytes


class Hits(TypedDict):
    items: list[LineDocument]
    next: str | None
    num_scanned: int
    total: int
    is_over: bool


def search(
    run_id: str, pattern: Pattern, filters: Filters, *, after: str = "", limit: int = 100, budget_s: float = 0.15
) -> Hits:
    """Return hits behind the place of a cursor, oldest first, as many as were found within the budget, and where to go
    on. Each call comes further by a chunk at least, if need be beyond its budget: those that overlap it are looked at
    with it, unless that takes far too long. Raises BadCursor and TooSlow."""
    behind = _key(after) if after else None
    deadline = time.monotonic() + budget_s
    with snapshot():
        search = _Search(index_of(run_id, filters), pattern, behind, limit)
        frontier = search.go(deadline)
        ready = search.ready(frontier)
        if len(ready) > limit or (len(ready) == limit and frontier < END):
            ready = ready[:limit]
            place: Key | None = search.key(ready[-1])
        else:
            place = Key(frontier, -1, 0, 0, 0) if frontier < END else None
        return search.answer(ready, place)


class _Search:
    def __init__(self, index: Index, pattern: Pattern, behind: Key | None, limit: int) -> None:
        self.index, self.pattern, self.behind, self.limit = index, pattern, behind, limit
        self.hits: list[_Hit] = []  # in their order

    def go(self, deadline: float) -> float:
        """Look until the deadline or until there are hits enough. Returns the time before which nothing is left."""
        table = self.index.table
        rows = np.flatnonzero(self.index.counts)
        if self.behind is not None:
            rows = rows[table.last_time[rows] >= self.behind.time]
        rows = rows[np.argsort(table.first_time[rows], kind="stable")]
        begun = max(float(table.first_time[rows[0]]), self.behind.time if self.behind else -END) if rows.size else END
        passed = END  # the end of a chunk that was looked at: to stop before would be to open it again
        for row, data, text in self._opened(rows.tolist()):
            frontier = float(table.first_time[row])
            late_s = time.monotonic() - deadline
            is_late = frontier > begun and (late_s >= OVERRUN_S or (late_s >= 0 and frontier >= passed))
            if is_late or len(self.ready(frontier)) > self.limit:
                return frontier
            if late_s >= 4 * OVERRUN_S and passed < END:
                raise TooSlow("this takes too long in the logs of so many ranks: seek less, or in fewer of them")
            self._look(row, data, text)
            passed = min(passed, float(table.last_time[row]))
        return END

    def _opened(self, rows: list[int]) -> Iterator[tuple[int, bytes, bytes]]:
        for start in range(0, len(rows), CHUNKS_PER_QUERY):
            some = [(row, int(self.index.table.ids[row])) for row in rows[start : start + CHUNKS_PER_QUERY]]
            found = LogChunk.objects.filter(pk__in=[pk for _, pk in some]).values_list("pk", "columns", "text")
            data = {pk: parts for pk, *parts in found}
            for row, pk in some:
                columns, text = data[pk]
                yield row, bytes(columns), bytes(text)

    def _look(self, row: int, data: bytes, text: bytes) -> None:
        """Look through one chunk: behind the cursor, for one hit more than is asked for, and none behind those that
        are enough. What is not kept is found again behind the next cursor."""
        table, (stream, first_line) = self.index.table, self.index.table.place(row)
        texts = ChunkPlace(stream.run_id, stream.pk, first_line).shown_texts(text, int(table.num_lines[row]))
        if not texts.is_readable:
            return
        columns: Columns | None = None
        found: list[_Hit] = []
        start, bound = 0, self.hits[self.limit].time if len(self.hits) > self.limit else END
        if self.behind is not None and self.behind.time >= table.first_time[row]:
            columns = decode_columns(data)
            start = line_behind(stream, first_line, self.index.order(row, columns), self.behind)
        times: list[float] = []
        fits: list[bool] = []
        for line in self.pattern.lines(texts, start):
            if columns is None or not times:
                columns = columns or decode_columns(data)
                times, fits = self.index.order(row, columns).tolist(), self.index.fits(columns).tolist()
            if times[line] > bound or len(found) > self.limit:
                break
            if fits[line]:
                logged_at, level = float(columns.times[line]), int(columns.levels[line])
                found.append(_Hit(times[line], row, line, logged_at, level, texts.line(line)))
        self.hits = sorted([*self.hits, *found], key=itemgetter(0, 1, 2))[: self.limit + 1]

    def key(self, hit: _Hit) -> Key:
        stream, first_line = self.index.table.place(hit.row)
        return key_of(stream, hit.time, first_line + hit.line)

    def item(self, hit: _Hit) -> LineDocument:
        stream, first_line = self.index.table.place(hit.row)
        return cut(document(stream, first_line + hit.line, hit.logged_at, hit.level, hit.text.decode()))

    def ready(self, frontier: float) -> list[_Hit]:
        """Return the hits before that moment."""
        return self.hits[: bisect_left(self.hits, frontier, key=itemgetter(0))]

    def answer(self, hits: list[_Hit], place: Key | None) -> Hits:
        refs = Refs(np.array([hit.row for hit in hits], np.int64), np.array([hit.line for hit in hits], np.int64))
        places = self.index.ordinals(refs, np.array([hit.time for hit in hits], np.float64)).tolist()
        items = [self.item(hit) for hit in hits]
        for item, number in zip(items, places, strict=True):
            item["index"] = number
            item["spans"] = in_utf16(item["text"], self.pattern.spans(item["text"]))
        if place is None:
            num_scanned = self.index.total
        else:
            num_scanned = places[-1] + 1 if hits and self.key(hits[-1]) == place else self.index.num_before(place.time)
        return {
            "items": items,
            "next": None if place is None else cursor_of(place),
            "num_scanned": num_scanned,
            "total": self.index.total,
            "is_over": place is None,
        }


def in_utf16(text: str, spans: Spans) -> list[list[int]]:
    """Return spans of characters in the units that browsers count in: letters beyond U+FFFF have two."""
    if text.isascii() or max(text, default="") <= "\uffff":
        return [list(span) for span in spans]
    ends = np.cumsum([0, *(1 + (letter > "\uffff") for letter in text)]).tolist()
    return [[ends[start], ends[end]] for start, end in spans]


def _key(cursor: str) -> Key:
    try:
        return key_in(value_of(cursor))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this search") from error
