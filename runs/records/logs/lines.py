"""A line of a log: its id, its place among all lines, and its document for the API."""

import re
from collections.abc import Collection
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from runs.records.logs.levels import NAMES
from runs.records.metrics.codec import Floats
from runs.records.metrics.models import LogStream

STREAMS = ("stdout", "stderr", "build")
LETTERS = "oeb"  # of the streams, in ids of lines
LINE_ID = re.compile(r"a(\d{1,10})\.r(-?\d{1,10})\.([oeb])\.(\d{1,18})", re.ASCII)


class BadLine(ValueError):
    """Text that is no line's id."""


class Key(NamedTuple):
    """Place of a line in the one order for all lines of a run, which nothing changes. ``time`` never falls within a
    stream, even where the rank's clock went back."""

    time: float
    attempt: int
    rank: int
    stream: int  # place in STREAMS
    line: int  # its number in its stream


def key_in(document: Any) -> Key:
    """Return the key that stands in a cursor. Raises ValueError, TypeError and OverflowError."""
    at, *numbers = document
    attempt, rank, stream, line = (int(number) for number in numbers)
    return Key(float(at), attempt, rank, stream, line)


class LineId(NamedTuple):
    attempt: int
    rank: int
    stream: str
    line: int

    @property
    def text(self) -> str:
        return f"a{self.attempt}.r{self.rank}.{LETTERS[STREAMS.index(self.stream)]}.{self.line}"


class Filters(NamedTuple):
    """Filters of lines; an empty or missing one leaves all."""

    ranks: Collection[int] = frozenset()
    stream: str = ""
    levels: Collection[int] = frozenset()  # codes, see runs.records.logs.levels
    attempt: int | None = None

    def fits(self, stream: LogStream) -> bool:
        return (
            (not self.ranks or stream.rank in self.ranks)
            and (not self.stream or stream.name == self.stream)
            and (self.attempt is None or stream.attempt == self.attempt)
        )


def line_id(text: str) -> LineId:
    """Return the parts of an id. Raises BadLine."""
    found = LINE_ID.fullmatch(text)
    if found is None:
        raise BadLine(f"{text[:80]!r} is no line's id: one looks like a1.r0.o.17")
    return LineId(int(found[1]), int(found[2]), STREAMS[LETTERS.index(found[3])], int(found[4]))


def key_of(stream: LogStream, time: float, line: int) -> Key:
    return Key(time, stream.attempt, stream.rank, STREAMS.index(stream.name), line)


def line_behind(stream: LogStream, first_line: int, order: Floats, after: Key) -> int:
    """Return which of consecutive lines, placed at ``order``, is the first behind a key; their number for none."""
    own = key_of(stream, after.time, 0)[1:4]
    if own < after[1:4]:
        return int(np.searchsorted(order, after.time, "right"))
    start = int(np.searchsorted(order, after.time, "left"))
    return start if own > after[1:4] else max(start, after.line + 1 - first_line)


class LineDocument(TypedDict):
    """A line as the API has it. ``length``, ``index`` and ``spans`` stand where an answer needs them."""

    id: str
    rank: int
    stream: str
    attempt: int
    time: float
    level: str
    text: str
    length: NotRequired[int]  # of a text that was cut
    index: NotRequired[int]  # its place among those that fit the filters
    spans: NotRequired[list[list[int]]]  # where a search found what it looked for
    labels: NotRequired[list[str]]  # of rules that it fits


def document(stream: LogStream, line: int, time: float, level: int, text: str) -> LineDocument:
    """Return the line as the API has it; ``time`` is by the rank's clock."""
    return {
        "id": LineId(stream.attempt, stream.rank, stream.name, line).text,
        "rank": stream.rank,
        "stream": stream.name,
        "attempt": stream.attempt,
        "time": time,
        "level": NAMES[level],
        "text": text,
    }
