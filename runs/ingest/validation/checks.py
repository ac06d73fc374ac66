"""What a record may say, part by part. Whatever else it says raises Poison."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from typing import Any

from runs.ingest.troubles import LOST_CODES
from runs.points.store import Lines
from runs.points.tables import Head, Rows

MAX_NAME = 500
MAX_LABELS = 32
MAX_NAMES = 20_000  # of one group; more series than these no run has
MAX_SEQUENCE = 2**62
MAX_STEP = 2**63 - 1
PRODUCER = re.compile(r"[0-9a-f]{32}")
STREAMS = ("stdout", "stderr")
ROLES = ("rank", "supervisor", "script")
KEPT_CHARACTERS = 4_000_000  # of names that are remembered, a hundred for each name on top


class Poison(ValueError):
    """A frame that cannot be stored; the text says why."""


class Heads:
    """The same names and labels come with every frame of a producer: they are checked once, and one object since."""

    def __init__(self) -> None:
        self._kept: OrderedDict[object, Head] = OrderedDict()
        self._weight = 0

    def head(self, names: object, labels: object) -> Head:
        """Return the head with these names and labels. Raises Poison."""
        try:
            key = names, tuple(labels.items()) if isinstance(labels, dict) else labels
            found = self._kept.get(key)
        except TypeError as error:  # something in there is no text, and cannot be a key
            raise Poison("names and labels are texts") from error
        if found is None:
            found = self._kept[key] = make_head(names, labels)
            self._weight += _weight(found)
            while self._weight > KEPT_CHARACTERS:
                self._weight -= _weight(self._kept.popitem(last=False)[1])
        return found


def _weight(head: Head) -> int:
    return sum(100 + len(name) for name in head.names) + 1000


_heads = Heads()


def make_head(names: object, labels: object) -> Head:
    """Return a head. Raises Poison."""
    if not isinstance(names, tuple) or len(names) > MAX_NAMES:
        raise Poison(f"the names of a group are a list of at most {MAX_NAMES}")
    for name in names:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise Poison(f"a metric's name is text of 1 to {MAX_NAME} characters")
    if not isinstance(labels, dict) or len(labels) > MAX_LABELS:
        raise Poison(f"labels are a map of at most {MAX_LABELS}")
    for pair in labels.items():
        if not all(isinstance(part, str) and len(part) <= MAX_NAME for part in pair):
            raise Poison(f"labels are texts of at most {MAX_NAME} characters")
    clean = tuple(storable(name) for name in names)
    if len(set(clean)) < len(clean):
        raise Poison("a name stands twice in one group")
    return Head(clean, {storable(key): storable(value) for key, value in labels.items()})


def rows(group: object) -> Rows:
    """Return the points of one group; that their times are finite is still to be seen. Raises Poison."""
    if not isinstance(group, tuple) or len(group) != 5:
        raise Poison("a group is labels, names, steps, times and values")
    labels, names, steps, times, values = group
    head = _heads.head(names, labels)
    if not (type(steps) is type(times) is type(values) is bytes) or len(steps) % 8:
        raise Poison("a column is packed bytes, 8 a number")
    if len(times) != len(steps) or len(values) != len(steps) * len(head.names):
        sizes = f"{len(times) / 8:g} times and {len(values) / 8:g} values"
        raise Poison(f"{len(steps) // 8} rows of {len(head.names)} names have {sizes}")
    return Rows(head, steps, times, values)


def lines(payload: dict[str, Any]) -> Lines:
    stream = payload.get("stream")
    if stream not in STREAMS:
        raise Poison("a log's stream is stdout or stderr")
    found = []
    for line in list_of(payload.get("lines")):
        if not isinstance(line, tuple) or len(line) != 2 or not isinstance(line[1], str):
            raise Poison("a log line is a time and a text")
        found.append((time_of(line[0]), line[1]))
    return Lines(_rank(payload.get("rank")), stream, found)


def begin(payload: dict[str, Any]) -> dict[str, Any]:
    role = payload.get("role", "rank")
    if role not in ROLES:
        raise Poison("a producer is a rank or a supervisor on a node, or a script elsewhere")
    return {"role": role, "rank": _rank(payload.get("rank", -1))}


def lost(payload: dict[str, Any]) -> dict[str, int]:
    counts = payload.get("counts")
    if not isinstance(counts, dict) or not all(code in LOST_CODES for code in counts):
        raise Poison(f"what was lost is counted as {', '.join(sorted(LOST_CODES))}")
    if not all(type(count) is int and 0 <= count < MAX_SEQUENCE for count in counts.values()):
        raise Poison("what was lost is counted in whole numbers")
    return counts


def list_of(value: object) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise Poison("a list is missing")
    return value


def storable(text: str) -> str:
    """PostgreSQL keeps no NUL in text; the replacement character shows that something was there."""
    return text.replace("\x00", "\ufffd")


def _rank(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**31:
        raise Poison("a rank is a number from -1 up")
    return value


def time_of(value: object) -> float:
    """Return a moment in Unix seconds. Raises Poison."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Poison("a time is a number of Unix seconds")
    try:
        seconds = float(value)
    except OverflowError as error:
        raise Poison("a time is out of range") from error
    if not math.isfinite(seconds):
        raise Poison("a time is not finite")
    return seconds
