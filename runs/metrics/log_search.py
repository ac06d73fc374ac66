"""Looking for a text in a log, for a bounded time.

Chunks are looked through by their first times. A hit is told once no chunk that is still closed can hold an older
line, so hits come oldest first, whatever ranks they are of. Where the time is up the cursor says before which moment
everything was looked at; it is a line's key, which compaction does not change.
"""

from __future__ import annotations

import base64
import json
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from runs.metrics.chunks import decode_columns, decode_texts
from runs.metrics.lines import BadCursor
from runs.metrics.log_index import Index, Refs, index_of
from runs.metrics.log_lines import Filters, Key, key_of, line_behind
from runs.metrics.log_patterns import Pattern, Spans
from runs.metrics.log_windows import cut, item_of
from runs.metrics.models import LogChunk
from runs.metrics.snapshot import snapshot

CHUNKS_PER_QUERY = 16  # of up to 512 KB of text each, compressed
END = float("inf")


@dataclass(frozen=True)
class _Hit:
    key: Key
    row: int
    line: int
    item: dict[str, Any]


def search(
    run_id: str, pattern: Pattern, filters: Filters, *, after: str = "", limit: int = 100, budget_s: float = 0.15
) -> dict[str, Any]:
    """Return hits behind the place of a cursor, oldest first, as many as were found within the budget, and where to go
    on. Each call comes further, if need be beyond its budget: as many chunks as begin at one moment are looked at
    together. Raises BadCursor."""
    behind = _key(after) if after else None
    deadline = time.monotonic() + budget_s
    with snapshot():
        search = _Search(index_of(run_id, filters), pattern, behind, limit)
        frontier = search.go(deadline)
        ready = search.ready(frontier)
        if len(ready) > limit or (len(ready) == limit and frontier < END):
            ready = ready[:limit]
            place: Key | None = ready[-1].key
        else:
            place = Key(frontier, -1, 0, 0, 0) if frontier < END else None
        return search.answer(ready, place)


class _Search:
    def __init__(self, index: Index, pattern: Pattern, behind: Key | None, limit: int) -> None:
        self.index = index
        self.pattern = pattern
        self.behind = behind
        self.limit = limit
        self.hits: list[_Hit] = []  # in their order

    def go(self, deadline: float) -> float:
        """Look until the deadline or until there are hits enough. Returns the time before which nothing is left."""
        shelf = self.index.shelf
        rows = np.flatnonzero(self.index.counts)
        if self.behind is not None:
            rows = rows[shelf.last_time[rows] >= self.behind.time]
        rows = rows[np.argsort(shelf.first_time[rows], kind="stable")]
        begun = max(float(shelf.first_time[rows[0]]), self.behind.time if self.behind else -END) if rows.size else END
        for row, data, text in self._opened(rows.tolist()):
            frontier = float(shelf.first_time[row])
            if len(self.ready(frontier)) >= self.limit or (frontier > begun and time.monotonic() >= deadline):
                return frontier
            self._look(row, data, text)
        return END

    def _opened(self, rows: list[int]) -> Iterator[tuple[int, bytes, bytes]]:
        for start in range(0, len(rows), CHUNKS_PER_QUERY):
            some = [(row, int(self.index.shelf.ids[row])) for row in rows[start : start + CHUNKS_PER_QUERY]]
            found = LogChunk.objects.filter(pk__in=[pk for _, pk in some]).values_list("pk", "columns", "text")
            data = {pk: parts for pk, *parts in found}
            for row, pk in some:
                columns, text = data[pk]
                yield row, bytes(columns), bytes(text)

    def _look(self, row: int, data: bytes, text: bytes) -> None:
        """Look through one chunk: behind the cursor, for one hit more than is asked for."""
        shelf, texts = self.index.shelf, decode_texts(text)
        stream, first_line = shelf.streams[int(shelf.stream[row])], int(shelf.first_line[row])
        start, found = 0, []
        if self.behind is not None and self.behind.time >= shelf.first_time[row]:
            order = self.index.order(row, decode_columns(data))
            start = line_behind(stream, first_line, order, self.behind)
        for line in self.pattern.lines(texts, start):
            columns = decode_columns(data)
            level = int(columns.levels[line])
            if not self.index.levels or level in self.index.levels:
                key = key_of(stream, float(self.index.order(row, columns)[line]), first_line + line)
                found.append(_Hit(key, row, line, cut(item_of(shelf, row, line, columns, texts))))
            if len(found) > self.limit:
                break
        # More than are told are not kept: they are found again behind the cursor.
        self.hits = sorted([*self.hits, *found], key=attrgetter("key"))[: self.limit + 1]

    def ready(self, frontier: float) -> list[_Hit]:
        """Return the hits before that moment."""
        return self.hits[: bisect_left(self.hits, frontier, key=lambda hit: hit.key.time)]

    def answer(self, hits: list[_Hit], place: Key | None) -> dict[str, Any]:
        refs = Refs(np.array([hit.row for hit in hits], np.int64), np.array([hit.line for hit in hits], np.int64))
        places = self.index.ordinals(refs, np.array([hit.key.time for hit in hits], np.float64)).tolist()
        for hit, number in zip(hits, places, strict=True):
            hit.item["index"] = number
            hit.item["spans"] = in_utf16(hit.item["text"], self.pattern.spans(hit.item["text"]))
        if place is None:
            num_scanned = self.index.total
        else:
            num_scanned = places[-1] + 1 if hits and hits[-1].key == place else self.index.num_before(place.time)
        return {
            "items": [hit.item for hit in hits],
            "next": None if place is None else _text(place),
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


def _text(key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def _key(cursor: str) -> Key:
    try:
        at, *numbers = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        attempt, rank, stream, line = (int(number) for number in numbers)
        return Key(float(at), attempt, rank, stream, line)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this search") from error
