"""Changes of a run between two cursors, as the browser gets them: pushed while it happens, or read back by a client
that missed some of it. Both ways make the same messages."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict

from runs.records.metrics.codec import Columns, joined, numbers
from runs.records.points.store import SeriesPiece, StreamLines
from trainyard.grouping import grouped

MAX_POINTS = 20_000
MAX_LINES = 2_000

# Message to a browser: points or log lines, or the request to read again.
Message = TypedDict(
    "Message",
    {
        "type": str,
        "from": int,
        "cursor": int,
        "steps": list[int] | None,
        "lines": "list[LineDocument]",
        "series": "list[SeriesDocument]",
    },
    total=False,
)


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

    def messages(self) -> list[Message]:
        """Return what a client gets. Only the last one moves its cursor on: who loses the connection between two
        gets both again, and nothing is missed."""
        if self.refetch:
            return [{"type": "refetch", "from": self.start, "cursor": self.cursor, "steps": self.steps}]
        parts: list[Message] = []
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
    series = [
        series_document(name, group[0].labels, attempt, joined([piece.columns for piece in group]))
        for (attempt, name, _), group in groups.items()
    ]
    return Delta(start, cursor, series, [line for part in lines for line in line_documents(part)])


def series_document(name: str, labels: dict[str, str], attempt: int, columns: Columns) -> SeriesDocument:
    return {
        "name": name,
        "labels": labels,
        "attempt": attempt,
        "step": columns.steps.tolist(),
        "time": columns.times.tolist(),
        "value": numbers(columns.values),
    }


def line_documents(part: StreamLines) -> list[LineDocument]:
    return [{"rank": part.rank, "stream": part.stream, "time": at, "text": text} for at, text in part.lines]


def _range(columns: list[Columns]) -> list[int] | None:
    if not columns:
        return None
    return [min(int(c.steps.min()) for c in columns), max(int(c.steps.max()) for c in columns)]
