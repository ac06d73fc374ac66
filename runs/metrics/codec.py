"""Points and log lines as compressed bytes, and back, exactly.

Points are three equally long columns. Neighbouring steps and times differ little, so differences are stored; their
bytes are shuffled (all first bytes, then all second bytes, …), which puts the equal ones side by side; zlib does the
rest. Values keep every bit but a NaN's payload, and take half the room where float32 holds them exactly.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

Steps = NDArray[np.int64]
Floats = NDArray[np.float64]

VERSION = 1
SINGLE = 1  # flag: values are float32
HEAD = struct.Struct("<BBI")  # version, flags, count
LEVEL = 1


class BadSegment(ValueError):
    """The bytes are not what encode() makes: another version, or damaged."""


class Columns(NamedTuple):
    """Points of one series: three arrays of one length, times in Unix seconds."""

    steps: Steps
    times: Floats
    values: Floats

    @property
    def size(self) -> int:
        return self.steps.size

    def at(self, where: NDArray[np.int64] | NDArray[np.bool_]) -> Columns:
        """Return the points at these places, or where this is true."""
        return Columns(self.steps[where], self.times[where], self.values[where])

    def part(self, start: int, end: int) -> Columns:
        return Columns(self.steps[start:end], self.times[start:end], self.values[start:end])


def joined(parts: Sequence[Columns]) -> Columns:
    """Return all points of at least one part, in order."""
    if len(parts) == 1:
        return parts[0]
    return Columns(
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def encode(steps: Steps, times: Floats, values: Floats) -> bytes:
    """Return the columns as bytes. Raises ValueError when their lengths differ."""
    count = steps.size
    if times.size != count or values.size != count:
        raise ValueError(f"{count} steps, {times.size} times and {values.size} values")
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype("<f4")
        is_single = bool(np.all((single == values) | np.isnan(values)))
    stored = single if is_single else np.ascontiguousarray(values, "<f8")
    body = _shuffled(_differences(steps)) + _shuffled(_differences(_as_integers(times))) + _shuffled(stored)
    return HEAD.pack(VERSION, SINGLE if is_single else 0, count) + zlib.compress(body, LEVEL)


def decode(data: bytes) -> Columns:
    """Return the columns that encode() was given. Raises BadSegment."""
    if len(data) < HEAD.size:
        raise BadSegment(f"{len(data)} bytes are too few")
    version, flags, count = HEAD.unpack_from(data)
    if version != VERSION:
        raise BadSegment(f"segment version {version} is unknown here")
    width = 4 if flags & SINGLE else 8
    try:
        body = zlib.decompress(memoryview(data)[HEAD.size :])
    except zlib.error as error:
        raise BadSegment(str(error)) from error
    if len(body) != count * (16 + width):
        raise BadSegment(f"{len(body)} bytes for {count} points")
    steps = _sums(_unshuffled(body[: 8 * count], "<u8"))
    times = _sums(_unshuffled(body[8 * count : 16 * count], "<u8"))
    values = _unshuffled(body[16 * count :], f"<f{width}").astype(np.float64)
    return Columns(steps.view(np.int64), times.view(np.float64), values)


def encode_lines(lines: list[tuple[float, str]]) -> bytes:
    """Return log lines (Unix seconds, text) as bytes."""
    body = msgpack.packb([[at for at, _ in lines], [text for _, text in lines]])
    return bytes([VERSION]) + zlib.compress(body, LEVEL)


def decode_lines(data: bytes) -> list[tuple[float, str]]:
    """Return the lines that encode_lines() was given. Raises BadSegment."""
    if not data or data[0] != VERSION:
        raise BadSegment("unknown version of a log chunk")
    try:
        times, texts = msgpack.unpackb(zlib.decompress(memoryview(data)[1:]), raw=False)
    except (zlib.error, ValueError) as error:
        raise BadSegment(str(error)) from error
    return list(zip(times, texts, strict=True))


def _as_integers(floats: Floats) -> NDArray[np.uint64]:
    """The same bits as integers, whose differences are exact (those of floats are not)."""
    return np.ascontiguousarray(floats, "<f8").view(np.uint64)


def _differences(column: Steps | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """First element, then what each adds to the one before; modulo 2**64, so that nothing overflows."""
    numbers = np.ascontiguousarray(column).view(np.uint64)
    out = numbers.copy()
    out[1:] -= numbers[:-1]
    return out


def _sums(differences: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.cumsum(differences, dtype=np.uint64)


def _shuffled(column: NDArray[np.generic]) -> bytes:
    return column.view(np.uint8).reshape(column.size, column.itemsize).T.tobytes()


def _unshuffled(data: bytes, kind: str) -> NDArray[np.uint64]:
    width = np.dtype(kind).itemsize
    shuffled = np.frombuffer(data, np.uint8).reshape(width, len(data) // width)
    return np.ascontiguousarray(shuffled.T).view(kind).reshape(-1)
