"""Frames as they may come from a node that is buggy, old or hostile, and records as the store may rely on them.

A frame that does not become a record is *poison*: it is kept as a dead letter, and counts as seen when it is known
whose and which it was, so that one bad frame never stops the good ones behind it.
"""

from __future__ import annotations

import math
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np

from runs.metrics.codec import Columns
from runs.metrics.store import Lines
from trainyard import records

MAX_NAME = 500
MAX_LABELS = 32
MAX_SEQUENCE = 2**62
MAX_STEP = 2**63 - 1
PRODUCER = re.compile(r"[0-9a-f]{32}")
STREAMS = ("stdout", "stderr")
LOST_CODES = frozenset(("lost_points", "bad_values", "spool_limit"))


class Poison(ValueError):
    """A frame that cannot be stored; the text says why."""


SeriesPoints = tuple[str, dict[str, str], Columns]  # name, labels, points


@dataclass(frozen=True)
class Record:
    """What one frame says, checked. A frame of an unknown kind is poison, so at least one part is set."""

    points: list[SeriesPoints] = field(default_factory=list)
    lines: Lines | None = None
    begin: dict[str, Any] | None = None
    is_end: bool = False
    lost: dict[str, int] = field(default_factory=dict)  # what the producer could not keep: how many, by code


@dataclass(frozen=True)
class Incoming:
    """One frame as it arrived. ``producer`` is empty where nobody can know whose it is."""

    raw: bytes
    producer: str = ""
    sequence: int = 0
    record: Record | None = None
    poison: str = ""


def incoming(data: bytes) -> list[Incoming]:
    """Return every frame in ``data``, in order, poison included; never raises."""
    found: list[Incoming] = []
    offset = 0
    while offset < len(data):
        try:
            frame, end = records.decode(data, offset)
        except records.TornFrame as error:
            found.append(Incoming(raw=data[offset:], poison=str(error)))
            break
        except records.BadFrame as error:
            length, _ = records.HEADER.unpack_from(data, offset)
            end = offset + records.HEADER.size + length
            if length > records.MAX_FRAME_BYTES or end > len(data):
                end = len(data)
            found.append(_damaged(data[offset:end], str(error)))
        else:
            found.append(_checked(frame))
        offset = end
    return found


def check_points(name: object, labels: object, columns: Columns) -> SeriesPoints:
    """Return the points of one series. Raises Poison."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise Poison(f"a metric's name is text of 1 to {MAX_NAME} characters")
    if not isinstance(labels, dict) or len(labels) > MAX_LABELS:
        raise Poison(f"labels of {name[:60]!r} are not a map of at most {MAX_LABELS}")
    for pair in labels.items():
        if not all(isinstance(part, str) and len(part) <= MAX_NAME for part in pair):
            raise Poison(f"labels of {name[:60]!r} are texts of at most {MAX_NAME} characters")
    sizes = {columns.steps.size, columns.times.size, columns.values.size}
    if len(sizes) != 1:
        raise Poison(f"columns of {name[:60]!r} differ in length: {sorted(sizes)}")
    if not np.isfinite(columns.times).all():
        raise Poison(f"a time of {name[:60]!r} is not finite")
    clean = {_storable(key): _storable(value) for key, value in labels.items()}
    return _storable(name), clean, columns


def _checked(frame: records.Frame) -> Incoming:
    producer, sequence = frame.producer, frame.sequence
    if not PRODUCER.fullmatch(producer) or isinstance(frame.payload["q"], bool) or not 0 < sequence < MAX_SEQUENCE:
        return Incoming(raw=frame.raw, poison="the producer is not 32 hex digits, or the sequence is out of range")
    try:
        return Incoming(frame.raw, producer, sequence, _record(frame.kind, frame.payload))
    except Poison as error:
        return Incoming(frame.raw, producer, sequence, poison=str(error))


def _record(kind: str, payload: records.Payload) -> Record:
    if kind == "points":
        return Record(points=[series for group in _list(payload.get("g")) for series in _group(group)])
    if kind == "logs":
        return Record(lines=_lines(payload))
    if kind == "begin":
        return Record(begin=_begin(payload))
    if kind == "end":
        return Record(is_end=True)
    if kind == "lost":
        return Record(lost=_lost(payload))
    raise Poison(f"frames of kind {kind[:60]!r} are unknown here")


def _group(item: object) -> list[SeriesPoints]:
    """Return the series of one group. All have the same array of steps and the same array of times."""
    if not isinstance(item, list | tuple) or len(item) != 5:
        raise Poison("a group is labels, names, steps, times and values")
    labels, names, *columns = item
    names = _list(names)
    steps, times, values = (_column(column, kind) for column, kind in zip(columns, ("<i8", "<f8", "<f8"), strict=True))
    if values.size != steps.size * len(names):
        raise Poison(f"{steps.size} rows of {len(names)} names are not {values.size} values")
    by_name = np.ascontiguousarray(values.reshape(steps.size, len(names)).T)
    return [
        check_points(name, labels, Columns(steps, times, column)) for name, column in zip(names, by_name, strict=True)
    ]


def _column(packed: object, kind: str) -> Any:
    if not isinstance(packed, bytes) or len(packed) % 8:
        raise Poison("a column is packed bytes, 8 a number")
    return np.frombuffer(packed, kind)


def _lines(payload: records.Payload) -> Lines:
    stream = payload.get("stream")
    if stream not in STREAMS:
        raise Poison("a log's stream is stdout or stderr")
    lines = []
    for line in _list(payload.get("lines")):
        if not isinstance(line, list | tuple) or len(line) != 2 or not isinstance(line[1], str):
            raise Poison("a log line is a time and a text")
        lines.append((_time(line[0]), line[1]))
    return Lines(_rank(payload.get("rank")), stream, lines)


def _begin(payload: records.Payload) -> dict[str, Any]:
    role = payload.get("role", "rank")
    if role not in ("rank", "supervisor", "script"):
        raise Poison("a producer is a rank or a supervisor on a node, or a script elsewhere")
    return {"role": role, "rank": _rank(payload.get("rank", -1))}


def _lost(payload: records.Payload) -> dict[str, int]:
    counts = payload.get("counts")
    if not isinstance(counts, dict) or not all(code in LOST_CODES for code in counts):
        raise Poison(f"what was lost is counted as {', '.join(sorted(LOST_CODES))}")
    if not all(type(count) is int and 0 <= count < MAX_SEQUENCE for count in counts.values()):
        raise Poison("what was lost is counted in whole numbers")
    return counts


def _rank(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**31:
        raise Poison("a rank is a number from -1 up")
    return value


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Poison("a time is a number of Unix seconds")
    try:
        seconds = float(value)
    except OverflowError as error:
        raise Poison("a time is out of range") from error
    if not math.isfinite(seconds):
        raise Poison("a time is not finite")
    return seconds


def _list(value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise Poison("a list is missing")
    return list(value)


def _storable(text: str) -> str:
    """PostgreSQL keeps no NUL in text; the replacement character shows that something was there."""
    return text.replace("\x00", "\ufffd")


def _damaged(raw: bytes, reason: str) -> Incoming:
    """A frame that is no record. Where its checksum fits, it may still say whose it is (invalid UTF-8, say)."""
    body = raw[records.HEADER.size :]
    if len(raw) < records.HEADER.size or records.HEADER.unpack_from(raw)[1] != zlib.crc32(body):
        return Incoming(raw, poison=reason)
    try:
        payload = msgpack.unpackb(body, raw=False, strict_map_key=False, unicode_errors="replace")
        producer, sequence = payload["p"], payload["q"]
        is_named = PRODUCER.fullmatch(producer) is not None and 0 < sequence < MAX_SEQUENCE
    except (ValueError, KeyError, TypeError, RecursionError, msgpack.UnpackException):
        return Incoming(raw, poison=reason)
    return Incoming(raw, producer, int(sequence), poison=reason) if is_named else Incoming(raw, poison=reason)


def named(batch: list[Incoming], watermarks: dict[str, int]) -> list[Incoming]:
    """Return the batch with the unknown frame between k and k + 2 of one producer named k + 1.

    Nothing weaker is believed: a good frame that is wrongly counted as seen would be lost.
    """
    out = list(batch)
    for index, item in enumerate(batch):
        if item.producer:
            continue
        before = dict(watermarks)
        for other in out[:index]:
            before[other.producer] = other.sequence
        after: dict[str, int] = {}
        for other in batch[index + 1 :]:
            after.setdefault(other.producer, other.sequence)
        fits = [name for name, first in after.items() if name and first == before.get(name, 0) + 2]
        if len(fits) == 1:
            out[index] = Incoming(item.raw, fits[0], after[fits[0]] - 1, poison=item.poison)
    return out
