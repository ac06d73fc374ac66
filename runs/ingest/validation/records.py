"""Frames as they may come from a node that is buggy, old or hostile, and records as the store may rely on them.

A frame that does not become a record is *poison*: it is kept as a dead letter, and counts as seen when it is known
whose and which it was, so that one bad frame never stops the good ones behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack
import numpy as np

from runs.checkpoints.reports import Note
from runs.ingest.validation import checkpoint_notes as notes
from runs.ingest.validation import checks, facts, media
from runs.ingest.validation.checks import MAX_LABELS, MAX_NAME, MAX_SEQUENCE, MAX_STEP, PRODUCER, Poison
from runs.media.store import Item
from runs.metrics.facts import Told
from runs.points.store import Lines
from runs.points.tables import Rows
from trainyard.spooling import frames as records

MAX_DAMAGED = 16  # of one entry; behind so many, the rest of it is one

__all__ = [
    "MAX_LABELS", "MAX_NAME", "MAX_SEQUENCE", "MAX_STEP", "Incoming", "Poison", "Record", "incoming", "named",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Record:
    """What one frame says, checked. A frame of an unknown kind is poison, so at least one part is set."""

    points: list[Rows] = field(default_factory=list)
    lines: Lines | None = None
    begin: dict[str, Any] | None = None
    is_end: bool = False
    lost: dict[str, int] = field(default_factory=dict)  # what the producer could not keep: how many, by code
    checkpoint: Note | None = None
    facts: Told | None = None
    media: Item | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """One frame as it arrived. ``producer`` is empty where nobody can know whose it is; then ``claim`` may tell what
    the damaged frame itself says."""

    raw: bytes | memoryview
    producer: str = ""
    sequence: int = 0
    record: Record | None = None
    poison: str = ""
    is_damaged: bool = False  # no record at all, rather than one that says what cannot be stored
    claim: tuple[str, int] = ("", 0)


def incoming(data: bytes) -> list[Incoming]:
    """Return every frame in ``data``, in order, poison included; never raises."""
    found: list[Incoming] = []
    view = memoryview(data)
    offset = num_damaged = 0
    while offset < len(data):
        start = offset + records.HEADER.size
        length, checksum = records.HEADER.unpack_from(data, offset) if start <= len(data) else (0, 0)
        end = start + length
        if end > len(data) or length > records.MAX_FRAME_BYTES or num_damaged >= MAX_DAMAGED:
            found.append(Incoming(view[offset:], poison="what is left is no frame", is_damaged=True))
            break
        item = _decoded(view[offset:end], view[start:end], checksum)
        found.append(item)
        num_damaged += not item.producer
        offset = end
    return found if _are_finite(found) else [_with_finite_times(item) for item in found]


def _decoded(raw: memoryview, body: memoryview, checksum: int) -> Incoming:
    if zlib.crc32(body) != checksum:
        return Incoming(raw, poison="the checksum differs", is_damaged=True, claim=_claim(body))
    try:
        payload = msgpack.unpackb(body, use_list=False, strict_map_key=False)
    except UnicodeDecodeError as error:
        return _unreadable(raw, body, f"not text: {error}")
    except Exception as error:  # msgpack raises a dozen kinds; each means the same: these bytes are not a record
        return Incoming(raw, poison=f"not msgpack: {error}", is_damaged=True)
    if not isinstance(payload, dict):
        return Incoming(raw, poison="not a record", is_damaged=True)
    kind: Any = payload.get("t")
    producer: Any = payload.get("p")
    sequence: Any = payload.get("q")
    if not _is_name(producer, sequence) or not isinstance(kind, str):
        return Incoming(raw, poison="producer, sequence or kind are missing or none", is_damaged=True)
    try:
        return Incoming(raw, producer, sequence, _record(kind, payload))
    except Poison as error:
        return Incoming(raw, producer, sequence, poison=str(error), is_damaged=kind == "damaged")


def _is_name(producer: object, sequence: object) -> bool:
    return (
        type(producer) is str
        and type(sequence) is int
        and 0 < sequence < MAX_SEQUENCE
        and PRODUCER.fullmatch(producer) is not None
    )


def _record(kind: str, payload: dict[str, Any]) -> Record:
    if kind == "points":
        return Record(points=[checks.rows(group) for group in checks.list_of(payload.get("g"))])
    if kind == "logs":
        return Record(lines=checks.lines(payload))
    if kind == "begin":
        return Record(begin=checks.begin(payload))
    if kind == "end":
        return Record(is_end=True)
    if kind == "lost":
        return Record(lost=checks.lost(payload))
    if kind == "checkpoint":
        return Record(checkpoint=notes.checkpoint(payload))
    if kind == "facts":
        return Record(facts=facts.told(payload))
    if kind == "media":
        return Record(media=media.item(payload))
    if kind == "damaged":
        raise Poison(f"damaged on the node's disk: {str(payload.get('why'))[:200]}")
    raise Poison(f"frames of kind {kind[:60]!r} are unknown here")


def _unreadable(raw: memoryview, body: memoryview, reason: str) -> Incoming:
    """A frame that is no record though its checksum fits: its text is no UTF-8. It may still say whose it is."""
    producer, sequence = _claim(body)
    return Incoming(raw, producer, sequence, poison=reason, is_damaged=not producer)


def _claim(body: memoryview) -> tuple[str, int]:
    """Return the producer and the sequence that a frame names in its first bytes; "" and 0 where it does not."""
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False)
    unpacker.feed(body[:64])
    try:
        unpacker.read_map_header()
        said = {unpacker.unpack(): unpacker.unpack() for _ in range(2)}
        producer, sequence = said.get(b"p", b"").decode("ascii"), said.get(b"q", 0)
    except Exception:  # whatever it is that these bytes are, they name nobody: what follows is the same for all
        return "", 0
    return (producer, sequence) if _is_name(producer, sequence) else ("", 0)


def _are_finite(found: list[Incoming]) -> bool:
    times = [rows.times for item in found if item.record is not None for rows in item.record.points]
    return bool(np.isfinite(np.frombuffer(b"".join(times), "<f8")).all())


def _with_finite_times(item: Incoming) -> Incoming:
    if item.record is None or _are_finite([item]):
        return item
    return replace(item, record=None, poison="a time is not finite")


def named(batch: list[Incoming], watermarks: Mapping[str, int]) -> list[Incoming]:
    """Return the batch with names for damaged frames that can only be one: the frame between k and k + 2 of one
    producer is k + 1; and so is one that comes behind k and says itself that it is k + 1.

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
        fits = [(name, first - 1) for name, first in after.items() if name and first == before.get(name, 0) + 2]
        producer, sequence = item.claim
        if before.get(producer, 0) > 0 and sequence == before[producer] + 1:
            fits = [item.claim]
        if len(fits) == 1:
            out[index] = replace(item, producer=fits[0][0], sequence=fits[0][1])
    return out
