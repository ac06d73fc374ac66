"""Reading logs from one end to the other: the lines of all ranks, merged by time.

Lines arrive late: a rank's buffer, or a node that was out of contact, may bring lines that are older than what was
read already. So a page cursor holds, beside the place in time, which batches it is about: first everything committed
up to ``high`` by time, then, from the cursor at its end, what was committed since, by time again. Whoever follows
such cursors reads every line once.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TypedDict

from runs.logs.lines import Filters, Key, LineDocument
from runs.logs.merge import Span, backward, forward
from runs.logs.patterns import literal
from runs.metrics.progress import cursor_of
from runs.metrics.snapshot import snapshot

EVERYTHING = Filters()


class BadCursor(ValueError):
    """A cursor that read_logs() did not make."""


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
        attempt, rank, stream, line = (int(number) for number in numbers)
        return Place(place.low, place.high, Key(float(at), attempt, rank, stream, line))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list") from error


class Lines(TypedDict):
    items: list[LineDocument]
    next: str | None
    cursor: str


def read_logs(
    run_id: str,
    rank: int | None = None,
    after: str | None = None,
    q: str | None = None,
    limit: int = 500,
    tail: bool = False,
) -> Lines:
    """Return a page of lines: ``items``, ``next`` (None at the end of what there is) and ``cursor`` (never None:
    pass it as ``after`` to read on later). ``q`` keeps lines that contain it in any case; ``tail`` gives the last
    ``limit`` lines instead of the next ones. Raises BadCursor."""
    place = place_of(after) if after else Place()
    filters = EVERYTHING if rank is None else Filters(ranks={rank})
    find = literal(q, is_case=False).lines if q else None
    with snapshot():
        now = cursor_of(run_id)
        high = now if place.high is None else place.high
        at_end = Place(low=high).text()
        span = Span(place.low, high, place.key)
        if tail:
            last = list(islice(backward(run_id, filters, Span(place.low, high), find), limit))[::-1]
            return {"items": [item for _, item in last], "next": None, "cursor": at_end}
        found = list(islice(forward(run_id, filters, span, find), limit + 1))
    if len(found) > limit:
        cursor = Place(place.low, high, found[limit - 1][0]).text()
        return {"items": [item for _, item in found[:limit]], "next": cursor, "cursor": cursor}
    # The end of this snapshot; more may have been committed since it was taken.
    return {"items": [item for _, item in found], "next": at_end if high < now else None, "cursor": at_end}


def read_log_text(run_id: str, filters: Filters = EVERYTHING) -> Iterator[str]:
    """Yield the whole log as lines of text: time, rank, stream, text."""
    for _, line in forward(run_id, filters, Span()):
        yield f"{_moment(line['time'])} rank {line['rank']} {line['stream']}: {line['text']}\n"


def _moment(at: float) -> str:
    """Return Unix seconds as a date and time, and as they are where no calendar has them: ranks have odd clocks."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(at)
