"""Frames: how a spool file holds records, and how they travel to the server, byte for byte the same.

A frame is ``<u32 length><u32 CRC-32>`` (little-endian) followed by ``length`` bytes of MessagePack: a map of the
producer ``p`` (32 hex digits), the sequence ``q`` (1, 2, 3, … without gaps), the kind ``t``, and the fields of the
record (see ``trainyard.contract.records``). The producer comes first: a reader finds the next whole frame behind
damaged bytes by it.
"""

import struct
import zlib
from typing import Any, NamedTuple

import msgspec

from trainyard.contract.base import prepared
from trainyard.contract.records import AnyRecord, Producer, decode_record, encode_record

HEADER = struct.Struct("<II")
MAX_FRAME_BYTES = 1024 * 1024

HEAD_START = b"\xa1p\xd9\x20"  # behind the map's header: the key ``p`` and a text of 32 bytes
SEQUENCE_KEY = b"\xa1q"
INTEGER_BYTES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
MAX_SMALL_MAP = 15  # entries; the header of a map that has more takes three bytes
SMALL_MAP, LARGE_MAP = 0x80, 0xDE


class TornFrame(ValueError):
    """The bytes end inside a frame: the writer was killed, or is not done yet."""


class BadFrame(ValueError):
    """The bytes are not a frame: wrong checksum, impossible length, or not a record."""


class Head(msgspec.Struct, frozen=True):
    """Producer, sequence and kind of a frame: all that is needed to pass it on."""

    producer: Producer = msgspec.field(name="p")
    sequence: int = msgspec.field(name="q")
    kind: str = msgspec.field(name="t")


class Frame(NamedTuple):
    """One whole frame and the bytes that it came from (header included)."""

    producer: str
    sequence: int
    kind: str
    raw: bytes

    @property
    def payload(self) -> dict[str, Any]:
        """Everything that the frame holds, unchecked: for tools that show it."""
        found: dict[str, Any] = msgspec.msgpack.decode(self.raw[HEADER.size :])
        return found

    def record(self) -> AnyRecord:
        """Raises BadRecord."""
        return decode_record(memoryview(self.raw)[HEADER.size :])


_heads = msgspec.msgpack.Decoder(prepared(Head))


def pack(producer: str, sequence: int, record: AnyRecord) -> bytes:
    """Return the record as the producer's frame of that number. Raises ValueError for more than MAX_FRAME_BYTES."""
    fields = encode_record(record)
    header, num_fields = 1, fields[0] - SMALL_MAP
    if fields[0] == LARGE_MAP:
        header, num_fields = 3, int.from_bytes(fields[1:3], "big")
    num_fields += 2
    is_small = num_fields <= MAX_SMALL_MAP
    start = bytes([SMALL_MAP + num_fields]) if is_small else struct.pack(">BH", LARGE_MAP, num_fields)
    number = msgspec.msgpack.encode(sequence)
    return framed(b"".join((start, HEAD_START, producer.encode(), SEQUENCE_KEY, number, memoryview(fields)[header:])))


def framed(body: bytes) -> bytes:
    """Return the body behind its header. Raises ValueError when it is larger than MAX_FRAME_BYTES."""
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame holds at most {MAX_FRAME_BYTES} bytes, this one has {len(body)}")
    return HEADER.pack(len(body), zlib.crc32(body)) + body


def decode(data: bytes, offset: int = 0) -> tuple[Frame, int]:
    """Return the frame that starts at ``offset`` and the offset behind it. Raises TornFrame or BadFrame."""
    start = offset + HEADER.size
    if len(data) < start:
        raise TornFrame(f"{len(data) - offset} bytes, a header has {HEADER.size}")
    length, checksum = HEADER.unpack_from(data, offset)
    if length > MAX_FRAME_BYTES:
        raise BadFrame(f"length {length} is above {MAX_FRAME_BYTES}")
    end = start + length
    if len(data) < end:
        raise TornFrame(f"{len(data) - start} bytes of {length}")
    body = data[start:end]
    if zlib.crc32(body) != checksum:
        raise BadFrame(f"checksum differs in the frame of {length} bytes")
    found = head(body)
    return Frame(found.producer, found.sequence, found.kind, bytes(data[offset:end])), end


def head(body: bytes | memoryview) -> Head:
    """Return the producer, sequence and kind of the frame with this body. Raises BadFrame where they are missing."""
    try:
        return _heads.decode(body)
    except Exception as error:  # wrong types, no map, no MessagePack: each means the same, these bytes are no record
        raise BadFrame(f"not a record: {error}") from error


def claim(body: bytes | memoryview) -> tuple[str, int]:
    """Return the producer and the sequence that the first bytes of a damaged frame name; "" and 0 where they do not."""
    start = bytes(body[:64])
    header = 3 if start[:1] == bytes([LARGE_MAP]) else 1
    behind = header + len(HEAD_START) + 32
    size_at = behind + len(SEQUENCE_KEY)
    if start[header : behind - 32] != HEAD_START or start[behind:size_at] != SEQUENCE_KEY:
        return "", 0
    size = INTEGER_BYTES.get(start[size_at], 0)
    number = start[size_at + 1 : size_at + 1 + size] if size else start[size_at : size_at + 1]
    if not number or (not size and number[0] >= SMALL_MAP):
        return "", 0
    return start[behind - 32 : behind].decode("ascii", "replace"), int.from_bytes(number, "big")
