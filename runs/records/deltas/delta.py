"""Changes of a run between two cursors, as the browser gets them: pushed while it happens, or read back by a client
that missed some of it. Both ways make the same messages."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, TypedDict

from django.db.models import Max, Min, Sum

from runs.records.logs.read import lines_since, num_lines_since
from runs.records.metrics.codec import Columns, joined, numbers
from runs.records.metrics.models import Block, Segment, Series, Telemetry
from runs.records.metrics.progress import snapshot
from runs.records.points.read import decode_block, decoded
from runs.records.points.store import SeriesPiece, StreamLines
from runs.serving import broadcast
from trainyard.contract.base import JsonObject
from trainyard.grouping import grouped

MAX_POINTS = 20_000
MAX_LINES = 2_000
MAX_CHARS = 500_000  # some 9,000 points; more than this is better read in buckets
REFETCH = '{"type":"refetch"'

Steps = list[int] | None  # first and last, [] where there are no points, None where they may be anywhere


class SeriesDocument(TypedDict):
    """The new points of one series in one attempt, as equally long columns."""

    name: str
    labels: dict[str, str]
    attempt: int
    step: list[int]
    time: list[float]
    value: list[float | str]


class LineDocument(TypedDict):
    rank: int
    stream: str
    time: float
    text: str


@dataclass(frozen=True)
class Delta:
    """Everything committed after ``start`` up to and including ``cursor``; when that is too much to send, no points
    and no lines but ``refetch``, and the steps they lie in (None: only lines)."""

    start: int
    cursor: int
    series: list[SeriesDocument] = field(default_factory=list)
    lines: list[LineDocument] = field(default_factory=list)
    refetch: bool = False
    steps: list[int] | None = None

    def messages(self) -> list[JsonObject]:
        """Return what a client gets: points or log lines, or the request to read again. Only the last one moves its
        cursor on: who loses the connection between two gets both again, and nothing is missed."""
        if self.refetch:
            return [{"type": "refetch", "from": self.start, "cursor": self.cursor, "steps": self.steps}]
        parts: list[JsonObject] = []
        if self.lines:
            parts.append({"type": "logs", "lines": self.lines})
        if self.series or not self.lines:
            parts.append({"type": "points", "series": self.series})
        cursors = [self.start] * (len(parts) - 1) + [self.cursor]
        return [{**part, "from": self.start, "cursor": cursor} for part, cursor in zip(parts, cursors, strict=True)]


def delta(start: int, cursor: int, pieces: Iterable[tuple[int, SeriesPiece]], lines: Iterable[StreamLines]) -> Delta:
    """Return the delta of pieces (attempt, piece) and lines, each series once; a refetch where they are too many."""
    pieces, lines = list(pieces), list(lines)
    if sum(piece.columns.size for _, piece in pieces) > MAX_POINTS or sum(len(p.lines) for p in lines) > MAX_LINES:
        return Delta(start, cursor, refetch=True, steps=_range([piece.columns for _, piece in pieces]))
    groups = grouped(((attempt, *piece.key), piece) for attempt, piece in pieces)
    joint = {key: joined([piece.columns for piece in group]) for key, group in groups.items()}
    series: list[SeriesDocument] = [
        {
            "name": name,
            "labels": groups[attempt, name, key][0].labels,
            "attempt": attempt,
            "step": columns.steps.tolist(),
            "time": columns.times.tolist(),
            "value": numbers(columns.values),
        }
        for (attempt, name, key), columns in joint.items()
    ]
    texts: list[LineDocument] = [
        {"rank": part.rank, "stream": part.stream, "time": at, "text": text}
        for part in lines
        for at, text in part.lines
    ]
    return Delta(start, cursor, series, texts)


def _range(columns: list[Columns]) -> list[int] | None:
    if not columns:
        return None
    return [min(int(c.steps.min()) for c in columns), max(int(c.steps.max()) for c in columns)]


# A delta as it travels: encoded once by the process that has it, passed on unchanged by all others.


class EncodedDelta(NamedTuple):
    """Everything committed after ``start`` up to and including ``cursor``, as the messages that a socket sends."""

    start: int
    cursor: int
    texts: tuple[str, ...]
    steps: Steps

    @property
    def is_refetch(self) -> bool:
        return self.texts[0].startswith(REFETCH)

    def wire(self) -> broadcast.Message:
        """Return the delta as the channel layer carries it; from_wire() is the way back."""
        texts, steps = list(self.texts), self.steps
        return {"type": "batch", "from": self.start, "cursor": self.cursor, "texts": texts, "steps": steps}


def from_wire(batch: broadcast.Message) -> EncodedDelta:
    return EncodedDelta(batch["from"], batch["cursor"], tuple(batch["texts"]), batch["steps"])


def encode(change: Delta) -> EncodedDelta:
    """Return the encoded change; where it is too large to send, only a message to refetch."""
    steps = change.steps if change.refetch else _steps_of(change)
    texts = tuple(message_text(message) for message in change.messages())
    if sum(map(len, texts)) > MAX_CHARS:
        texts = (refetch(change.start, change.cursor, steps),)
    return EncodedDelta(change.start, change.cursor, texts, steps)


def refetch(start: int, cursor: int, steps: Steps) -> str:
    """Return the message to a client that was sent less than there was."""
    return message_text({"type": "refetch", "from": start, "cursor": cursor, "steps": steps or None})


def both(one: Steps, other: Steps) -> Steps:
    """Return the range that holds both."""
    if one is None or other is None:
        return None
    together = [*one, *other]
    return [min(together), max(together)] if together else []


def message_text(message: object) -> str:
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def _steps_of(change: Delta) -> Steps:
    steps = [column["step"] for column in change.series if column["step"]]
    return [min(map(min, steps)), max(map(max, steps))] if steps else []


# Records committed after a cursor, read back from the store: for a client that missed some of them.


def delta_since(run_id: str, cursor: int) -> Delta:
    """Return everything committed after ``cursor``; a refetch where that is too much, where batches were compacted
    since (so single batches are no longer known), or the cursor is not ours."""
    with snapshot():
        known = Telemetry.objects.filter(run_id=run_id).first() or Telemetry(run_id=run_id)
        now = known.cursor
        if cursor > now:  # the store was emptied, or the client made it up
            return Delta(now, now, refetch=True)
        if cursor == now:
            return Delta(now, now)
        if cursor < known.compacted_cursor:
            return Delta(cursor, now, refetch=True)
        return _change(run_id, cursor, now)


def _change(run_id: str, cursor: int, now: int) -> Delta:
    blocks = Block.objects.filter(run_id=run_id, cursor__gt=cursor)
    segments = Segment.objects.filter(series__run_id=run_id, is_sealed=False, cursor__gt=cursor)
    direct = segments.aggregate(total=Sum("count"), first=Min("first_step"), last=Max("last_step"))
    num_points = (direct["total"] or 0) + (blocks.aggregate(total=Sum("count"))["total"] or 0)
    if num_points > MAX_POINTS or num_lines_since(run_id, cursor, at_most=MAX_LINES) > MAX_LINES:
        steps = [direct["first"], direct["last"]] if direct["total"] and not blocks.exists() else None
        return Delta(cursor, now, refetch=True, steps=steps)
    parts = [(row.cursor, row.attempt, row.series_id, columns) for row, columns in decoded(segments.order_by("id"))]
    for block in blocks.order_by("id"):
        parts += [(block.cursor, block.attempt, pk, columns) for pk, columns in decode_block(bytes(block.data))]
    names = Series.objects.in_bulk({series_id for _, _, series_id, _ in parts})
    pieces = [
        (attempt, SeriesPiece("", 0, names[series_id].name, names[series_id].labels, columns))
        for _, attempt, series_id, columns in sorted(parts, key=itemgetter(0))
    ]
    return delta(cursor, now, pieces, lines_since(run_id, cursor))
