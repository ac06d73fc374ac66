"""Points as compressed bytes, and back, exactly.

Points are three equally long columns. Numbers are compressed by pcodec (which finds the differences, common divisors
and bit widths of a column by itself); what is too short to gain anything stays as it is. Values keep every bit but a
NaN's payload, and take half the room where float32 holds them exactly.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pcodec import ChunkConfig, standalone

Steps = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[Any]

CONFIG = ChunkConfig(compression_level=4)  # 1 is a third quicker and 5 % larger; 8 three times slower and 1 % smaller
PLAIN, PACKED = b"-", b"p"
KINDS = {b"q": "<i8", b"d": "<f8", b"f": "<f4", b"i": "<i4", b"B": "u1"}
LETTERS = {np.dtype(kind): letter for letter, kind in KINDS.items()}
SHORT = 8  # so many numbers and less stay plain
LENGTH = struct.Struct("<I")


class BadSegment(ValueError):
    """The bytes are not what this module makes: another version, or damaged."""


class Columns(NamedTuple):
    """Points of one series: three arrays of one length, times in Unix seconds."""

    steps: Steps
    times: Floats
    values: Floats

    @property
    def size(self) -> int:
        return self.steps.size

    def at(self, where: NDArray[np.int64] | NDArray[np.bool_]) -> "Columns":
        """Return the points at these places, or where this is true."""
        return Columns(self.steps[where], self.times[where], self.values[where])

    def part(self, start: int, end: int) -> "Columns":
        return Columns(self.steps[start:end], self.times[start:end], self.values[start:end])


def joined(parts: Sequence[Columns]) -> Columns:
    """Return all points of at least one part, in order."""
    return parts[0] if len(parts) == 1 else Columns(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def pack(numbers: Numbers) -> bytes:
    """Return a column of int64, int32, uint8, float64 or float32 as bytes that know their kind and length."""
    letter = LETTERS[numbers.dtype]
    if numbers.size <= SHORT:
        return PLAIN + letter + numbers.tobytes()
    return PACKED + letter + bytes(standalone.simple_compress(np.ascontiguousarray(numbers), CONFIG))


def unpack(data: bytes) -> Numbers:
    """Return the column that pack() was given. Raises BadSegment."""
    how, letter = data[:1], data[1:2]
    if letter not in KINDS or how not in (PLAIN, PACKED):
        raise BadSegment(f"{bytes(data[:2])!r} is no column")
    try:
        if how == PLAIN:
            return np.frombuffer(data, KINDS[letter], offset=2)
        numbers: Numbers = standalone.simple_decompress(data[2:])
    except (RuntimeError, ValueError) as error:  # pcodec says what is wrong with the bytes by RuntimeError
        raise BadSegment(str(error)) from error
    if numbers.dtype != KINDS[letter]:
        raise BadSegment(f"a column of {numbers.dtype} says that it is {KINDS[letter]}")
    return numbers


def pack_all(*columns: Numbers) -> bytes:
    packed = [pack(column) for column in columns]
    return b"".join(LENGTH.pack(len(part)) + part for part in packed)


def unpack_all(data: bytes, count: int) -> list[Numbers]:
    """Return the ``count`` columns that pack_all() was given. Raises BadSegment."""
    found, offset = [], 0
    for _ in range(count):
        if len(data) < offset + LENGTH.size:
            raise BadSegment(f"{len(data)} bytes are too few for {count} columns")
        start = offset + LENGTH.size
        offset = start + LENGTH.unpack_from(data, offset)[0]
        if len(data) < offset:
            raise BadSegment(f"{len(data)} bytes, a column ends at {offset}")
        found.append(unpack(data[start:offset]))
    return found


def encode_axis(steps: Steps, times: Floats) -> bytes:
    """Return steps and times as bytes. Raises ValueError when their lengths differ."""
    if steps.size != times.size:
        raise ValueError(f"{steps.size} steps and {times.size} times")
    return pack_all(steps, times)


def decode_axis(data: bytes) -> tuple[Steps, Floats]:
    """Return the steps and times that encode_axis() was given. Raises BadSegment."""
    steps, times = unpack_all(data, 2)
    if steps.size != times.size:
        raise BadSegment(f"{steps.size} steps and {times.size} times")
    return steps, times


def encode_values(values: Floats) -> bytes:
    return pack(narrowed(values))


def decode_values(data: bytes) -> Floats:
    """Return the values that encode_values() was given. Raises BadSegment."""
    return unpack(data).astype(np.float64, copy=False)


def narrowed(values: Floats) -> Numbers:
    """Return the values as float32 where that holds each of them exactly, else as they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
    same = single == values
    return single if same.all() or (same | np.isnan(values)).all() else values


def word_of(value: float) -> str:
    """Return the JSON word of a value that is not finite, and "" for every other."""
    if math.isfinite(value):
        return ""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def numbers(values: Floats) -> list[float | str]:
    """Return the values as JSON has them: what is not finite as a word that JavaScript's Number() reads."""
    out: list[float | str] = values.tolist()
    for index in np.flatnonzero(~np.isfinite(values)):
        out[index] = word_of(float(values[index]))
    return out
