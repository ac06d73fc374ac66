"""Frames as they may come from a node that is buggy, old or hostile, and records as the store may rely on them.

A frame that does not become a record is *bad*: it is kept as a dead letter, and counts as seen when it is known whose
and which it was, so that one bad frame never stops the good ones behind it.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec.structs import asdict

from runs.ingest.validation import rules
from runs.records.media.store import Item
from runs.records.metrics.progress import ReportedFact
from runs.records.points.store import StreamLines
from runs.records.points.tables import Rows
from runs.values.run_config import RunDescription
from trainyard.contract import records
from trainyard.contract.records import MAX_SEQUENCE, BadRecord, decode_record
from trainyard.spooling.frames import HEADER, MAX_FRAME_BYTES, BadFrame, claim, head

MAX_DAMAGED = 16  # of one entry; behind so many, the rest of it is one
PRODUCER = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Record:
    """Contents of one frame, checked, as the store takes it."""

    points: list[Rows] = field(default_factory=list)
    lines: StreamLines | None = None
    begin: records.Begin | None = None
    is_end: bool = False
    lost: dict[str, int] = field(default_factory=dict)  # what the producer could not keep: how many, by code
    checkpoint: records.Checkpoint | None = None
    facts: ReportedFact | None = None
    media: Item | None = None
    description: RunDescription | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """One frame as it arrived. ``producer`` is empty where nobody can know whose it is; then ``claim`` is what the
    damaged frame itself says."""

    raw: bytes | memoryview
    producer: str = ""
    sequence: int = 0
    record: Record | None = None
    problem: str = ""  # why there is no record
    is_damaged: bool = False  # no record at all, rather than one that cannot be stored
    claim: tuple[str, int] = ("", 0)


def incoming(data: bytes) -> list[Incoming]:
    """Return every frame in ``data``, in order, bad ones included; never raises."""
    found: list[Incoming] = []
    view = memoryview(data)
    offset = num_damaged = 0
    while offset < len(data):
        start = offset + HEADER.size
        length, checksum = HEADER.unpack_from(data, offset) if start <= len(data) else (0, 0)
        end = start + length
        if end > len(data) or length > MAX_FRAME_BYTES or num_damaged >= MAX_DAMAGED:
            found.append(Incoming(view[offset:], problem="what is left is no frame", is_damaged=True))
            break
        item = _decoded(view[offset:end], view[start:end], checksum)
        found.append(item)
        num_damaged += not item.producer
        offset = end
    return found if _are_finite(found) else [_with_finite_times(item) for item in found]


def _decoded(raw: memoryview, body: memoryview, checksum: int) -> Incoming:
    if zlib.crc32(body) != checksum:
        producer, sequence = claim(body)
        claimed = (producer, sequence) if _is_name(producer, sequence) else ("", 0)
        return Incoming(raw, problem="the checksum differs", is_damaged=True, claim=claimed)
    try:
        whose = head(body)
    except BadFrame as error:
        return Incoming(raw, problem=str(error), is_damaged=True)
    if not _is_name(whose.producer, whose.sequence):
        problem = f"producer or sequence are none: {whose.producer!r}, {whose.sequence}"
        return Incoming(raw, problem=problem, is_damaged=True)
    try:
        return Incoming(raw, whose.producer, whose.sequence, _checked(decode_record(body)))
    except BadRecord as error:
        is_damaged = whose.kind == "damaged"
        return Incoming(raw, whose.producer, whose.sequence, problem=str(error), is_damaged=is_damaged)


def _is_name(producer: str, sequence: int) -> bool:
    return 0 < sequence < MAX_SEQUENCE and PRODUCER.fullmatch(producer) is not None


def _checked(record: records.AnyRecord) -> Record:
    match record:
        case records.Points():
            return Record(points=[rules.rows(group) for group in record.groups])
        case records.Logs():
            return Record(lines=StreamLines(record.rank, record.stream, record.lines))
        case records.Begin():
            return Record(begin=record)
        case records.End():
            return Record(is_end=True)
        case records.Lost():
            return Record(lost={code: count for code, count in asdict(record.counts).items() if count})
        case records.Checkpoint():
            return Record(checkpoint=rules.checkpoint(record))
        case records.Facts():
            return Record(facts=rules.facts(record))
        case records.Media():
            return Record(media=rules.media(record))
        case records.Description():
            said, metric_rules = rules.description(record)
            return Record(description=said, facts=metric_rules)
        case records.Damaged():
            raise BadRecord(f"damaged on the node's disk: {record.why[:200]}")


def _are_finite(found: list[Incoming]) -> bool:
    times = [rows.times for item in found if item.record is not None for rows in item.record.points]
    return bool(np.isfinite(np.frombuffer(b"".join(times), "<f8")).all())


def _with_finite_times(item: Incoming) -> Incoming:
    if item.record is None or _are_finite([item]):
        return item
    return replace(item, record=None, problem="a time is not finite")


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
