"""Framed records: what a spool file holds and what travels to the server, byte for byte the same.

A frame is ``<u32 length><u32 CRC-32>`` (little-endian) followed by ``length`` bytes of msgpack. The payload is a
map that always has a producer ``p`` (32 hex digits), a sequence ``q`` (1, 2, 3, … without gaps) and a kind ``t``:

``begin``   first frame of a producer: ``rank`` (-1 for none), ``node``, ``pid``, ``at`` (Unix seconds), ``role``;
            outside of Trainyard also ``local`` (the id of its local run), ``script``, ``host`` and ``restart``
``points``  ``g``: a list of groups ``[labels, names, steps, times, values]``: n rows of m values. Labels are a map of
            strings, names m strings, steps n int64, times n float64 (Unix seconds) and values n*m float64 row by row
            (the m values of one call of ``log`` lie together), each packed little-endian
``logs``    ``rank``, ``stream`` ("stdout" or "stderr"), ``lines``: a list of ``[time, text]``
``lost``    ``counts``: a map of how much the producer could not keep since its last such frame: ``lost_points`` (no
            room in memory), ``bad_values`` (no numbers), ``spool_limit`` (points beyond the spool's limit)
``checkpoint``  what became of a checkpoint, told by ``Run.note``: ``state`` ("saved", "deleted", "invalid", "restored",
            "anew" when none could be restored, or "off" when none can be kept), ``step`` and ``fence`` (which it is),
            ``run`` (whose, if another's), ``bytes``, ``num_files``, ``world_size``, ``degrees`` (a map of axes to
            numbers), ``took_s``, ``stall_s``, ``at`` (Unix seconds), ``why`` and ``missing`` (true: what is called
            invalid was only not found there); what is not known is absent, and other keys are ignored
``facts``   what a rank found out about its run: ``name`` (what about: a-z, 0-9, - and _), ``data`` (a map, at most
            60 KB as JSON) and ``at`` (Unix seconds). A later one of the same attempt, name and rank takes its place
``media``   what was logged at a step and is no number: ``name``, ``labels``, ``step``, ``at`` (Unix seconds),
            ``kind``, ``meta`` (a map) and ``data`` (bytes). An "image": the file of a PNG, JPEG, WebP or GIF, with its
            ``caption``, ``width``, ``height`` and ``format``. A "histogram": n + 1 edges and n counts as float64,
            little-endian, with n as ``bins``, and ``num_not_finite``. A "text": UTF-8, with its number of ``chars`` and
            ``format`` ("plain" or "markdown"). A "table": a list of rows in msgpack, with the names of its ``columns``,
            its number of ``rows``, and ``num_rows`` and ``num_columns`` of the whole where it was cut
``damaged`` what a spool could not give back: ``why`` and ``data``, the bytes that were in its place (or their start)
``end``     the producer's last frame: ``at``, ``reason`` ("finish", "exit", "lost",
            "interrupt", or "error: " and what it was)

A server that is older than a kind keeps such frames as dead letters, counts them and goes on; nothing waits for them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgpack

HEADER = struct.Struct("<II")
MAX_FRAME_BYTES = 1024 * 1024

HEAD_START = b"\xa1p\xd9\x20"  # behind the byte of the map: the key ``p`` and a text of 32 bytes
INTEGER_BYTES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}

Payload = dict[str, Any]


class TornFrame(ValueError):
    """The bytes end inside a frame: the writer was killed, or is not done yet."""


class BadFrame(ValueError):
    """The bytes are not a frame: wrong checksum, impossible length, or not a record."""


class Head(NamedTuple):
    """Whose a frame is, which, and of what kind: all that is needed to pass it on."""

    producer: str
    sequence: int
    kind: str


class Frame(NamedTuple):
    """One decoded frame and the bytes it came from (header included)."""

    payload: Payload
    raw: bytes

    @property
    def producer(self) -> str:
        return str(self.payload["p"])

    @property
    def sequence(self) -> int:
        return int(self.payload["q"])

    @property
    def kind(self) -> str:
        return str(self.payload["t"])


def encode(payload: Payload) -> bytes:
    """Return ``payload`` as one frame. Raises ValueError when it is larger than MAX_FRAME_BYTES."""
    # Producer, sequence and kind come first, so that ``head`` finds them without reading the rest.
    first: Payload = {key: payload[key] for key in ("p", "q", "t") if key in payload}
    body: bytes = msgpack.packb({**first, **payload}, use_bin_type=True)
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
    return Frame(_payload(body), bytes(data[offset:end])), end


def head(body: bytes) -> Head:
    """Return what the payload of a frame says first. Raises BadFrame where it is no record."""
    if body[1:5] == HEAD_START and body[37:39] == b"\xa1q" and len(body) > 50:
        size = INTEGER_BYTES.get(body[39], 0)
        at = 40 + size
        if (size or body[39] < 0x80) and body[at : at + 2] == b"\xa1t" and 0xA0 < body[at + 2] < 0xC0:
            sequence = int.from_bytes(body[40:at], "big") if size else body[39]
            kind = body[at + 3 : at + 3 + body[at + 2] - 0xA0]
            return Head(body[5:37].decode("ascii", "replace"), sequence, kind.decode("ascii", "replace"))
    payload = _payload(body)  # written by somebody else, in another order
    return Head(payload["p"], payload["q"], payload["t"])


def frames(data: bytes) -> Iterator[Frame]:
    """Yield the frames that ``data`` is made of. Raises TornFrame or BadFrame where it stops being frames."""
    offset = 0
    while offset < len(data):
        frame, offset = decode(data, offset)
        yield frame


def _payload(body: bytes) -> Payload:
    try:
        payload = msgpack.unpackb(body, raw=False, strict_map_key=False)
    except Exception as error:  # msgpack raises a dozen kinds; each means the same: these bytes are not a record
        raise BadFrame(f"not msgpack: {error}") from error
    if not isinstance(payload, dict) or not {"p", "q", "t"} <= payload.keys():
        raise BadFrame("not a record: producer, sequence or kind is missing")
    if not isinstance(payload["p"], str) or not isinstance(payload["q"], int) or not isinstance(payload["t"], str):
        raise BadFrame("not a record: producer, sequence or kind has the wrong type")
    return payload
