"""Reading logs: the lines of all ranks, merged by time.

Lines arrive late: a rank's buffer, or a node that was out of contact, may bring lines that are older than what was
read already. So a page cursor holds, beside the place in time, which batches it is about: first everything committed
up to ``high`` by time, then, from the cursor at its end, what was committed since, by time again. Whoever follows
such cursors reads every line once.
"""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import F, QuerySet

from runs.metrics.codec import decode_lines
from runs.metrics.models import LogChunk, Telemetry

Key = tuple[float, int, int, int, int]  # time, rank, stream, chunk, line: one order for all lines
STREAMS = ("stdout", "stderr")


class BadCursor(ValueError):
    """A cursor that logs() did not make."""


@dataclass(frozen=True)
class Place:
    """After line ``key`` of what was committed after ``low`` and up to ``high`` (None: up to now)."""

    low: int = 0
    high: int | None = None
    key: Key | None = None

    def text(self) -> str:
        return base64.urlsafe_b64encode(json.dumps([self.low, self.high, self.key]).encode()).decode().rstrip("=")


def place_of(cursor: str) -> Place:
    """Return the place that a cursor names. Raises BadCursor."""
    try:
        low, high, key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        place = Place(int(low), None if high is None else int(high))
        if key is None:
            return place
        at, *numbers = key
        rank, stream, chunk, line = (int(number) for number in numbers)
        return Place(place.low, place.high, (float(at), rank, stream, chunk, line))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list") from error


def logs(
    run_id: str,
    rank: int | None = None,
    after: str | None = None,
    q: str | None = None,
    limit: int = 500,
    tail: bool = False,
) -> dict[str, Any]:
    """Return a page of lines: ``items``, ``next`` (None at the end of what there is) and ``cursor`` (never None:
    pass it as ``after`` to read on later). ``q`` keeps lines that contain it in any case; ``tail`` gives the last
    ``limit`` lines instead of the next ones. Raises BadCursor."""
    place = place_of(after) if after else Place()
    now = Telemetry.objects.filter(run_id=run_id).values_list("cursor", flat=True).first() or 0
    high = now if place.high is None else place.high
    chunks = _chunks(run_id, rank).filter(cursor__gt=place.low, cursor__lte=high)
    needle = q.casefold() if q else ""
    at_end = Place(low=high).text()
    if tail:
        found = list(_some(_backward(chunks), needle, limit))[::-1]
        return {"items": [item for _, item in found], "next": None, "cursor": at_end}
    if place.key is not None:
        chunks = chunks.filter(last_time__gte=place.key[0])
    found = list(_some(_forward(chunks, place.key), needle, limit + 1))
    if len(found) > limit:
        cursor = Place(place.low, high, found[limit - 1][0]).text()
        return {"items": [item for _, item in found[:limit]], "next": cursor, "cursor": cursor}
    # The end of this snapshot; more may have been committed since it was taken.
    return {"items": [item for _, item in found], "next": at_end if high < now else None, "cursor": at_end}


def log_text(run_id: str, rank: int | None = None) -> Iterator[str]:
    """Yield the whole log as lines of text: time, rank, stream, text."""
    for _, line in _forward(_chunks(run_id, rank), None):
        at = datetime.fromtimestamp(line["time"], UTC).isoformat(timespec="milliseconds")
        yield f"{at} rank {line['rank']} {line['stream']}: {line['text']}\n"


def _chunks(run_id: str, rank: int | None) -> QuerySet[LogChunk]:
    chunks = LogChunk.objects.filter(run_id=run_id)
    return chunks if rank is None else chunks.filter(rank=rank)


def _some(lines: Iterable[tuple[Key, dict[str, Any]]], needle: str, count: int) -> Iterator[tuple[Key, dict[str, Any]]]:
    for key, line in lines:
        if needle in line["text"].casefold():
            yield key, line
            count -= 1
            if count <= 0:
                return


def _forward(chunks: QuerySet[LogChunk], after: Key | None) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yield the lines oldest first. A line is due once no chunk that is still unread can hold an older one."""
    waiting: list[tuple[Key, dict[str, Any]]] = []
    for chunk in chunks.order_by("first_time", "id").iterator(chunk_size=50):
        while waiting and waiting[0][0][0] < chunk.first_time:
            yield heapq.heappop(waiting)
        for key, line in _lines_of(chunk):
            if after is None or key > after:
                heapq.heappush(waiting, (key, line))
    while waiting:
        yield heapq.heappop(waiting)


def _backward(chunks: QuerySet[LogChunk]) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yield the lines newest first: the same, with every number of the key turned round."""
    waiting: list[tuple[Key, Key, dict[str, Any]]] = []
    for chunk in chunks.order_by(F("last_time").desc(), "-id").iterator(chunk_size=50):
        while waiting and waiting[0][1][0] > chunk.last_time:
            _, key, line = heapq.heappop(waiting)
            yield key, line
        for key, line in _lines_of(chunk):
            at, rank, stream, number, index = key
            heapq.heappush(waiting, ((-at, -rank, -stream, -number, -index), key, line))
    while waiting:
        _, key, line = heapq.heappop(waiting)
        yield key, line


def _lines_of(chunk: LogChunk) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yield a chunk's lines as they were written: where the clock went back, the latest time so far counts."""
    latest = float("-inf")
    stream = STREAMS.index(chunk.stream)
    for index, (at, text) in enumerate(decode_lines(bytes(chunk.data))):
        latest = max(latest, at)
        line = {"rank": chunk.rank, "stream": chunk.stream, "time": at, "text": text, "attempt": chunk.attempt}
        yield (latest, chunk.rank, stream, chunk.pk, index), line
