"""Protocol Buffers, as far as other tools' files need it (protobuf.dev/programming-guides/encoding)."""

import struct
from collections.abc import Iterator
from typing import Any

SCALAR = struct.Struct("<f")
DOUBLE = struct.Struct("<d")
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types

Field = tuple[int, Any]

# Raised by bytes that are no message of the kind that was expected, whatever they are instead.
WRONG = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError, struct.error)


class BadMessage(ValueError):
    """Bytes that are no message."""


def fields(data: bytes) -> Iterator[Field]:
    """Yield number and value of each field: integers unsigned, floats, and bytes. Raises BadMessage."""
    place, size = 0, len(data)
    while place < size:
        key, place = varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = varint(data, place)
            yield number, value
        elif kind == BYTES:
            length, place = varint(data, place)
            if place + length > size:
                raise BadMessage(f"field {number} reaches beyond its message")
            yield number, data[place : place + length]
            place += length
        elif kind == FIXED64:
            yield number, DOUBLE.unpack_from(data, place)[0]
            place += 8
        elif kind == FIXED32:
            yield number, SCALAR.unpack_from(data, place)[0]
            place += 4
        else:
            raise BadMessage(f"field {number} has the wire type {kind}")


def varint(data: bytes, place: int) -> tuple[int, int]:
    """Return an integer of 7 bits a byte, the lowest first, and the place behind it."""
    found = data[place]
    if found < 0x80:
        return found, place + 1
    found &= 0x7F
    for count in range(1, 10):
        byte = data[place + count]
        found |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return found & (2**64 - 1), place + count + 1
    raise BadMessage("an integer of more than 64 bits")


def varints(data: bytes) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = varint(data, place)
        yield value


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def key(number: int, kind: int) -> bytes:
    """Return what stands before a field."""
    return _packed(number << 3 | kind)


def field(number: int, value: int | float | bytes | str) -> bytes:
    """Return a field: an integer as a varint, a float with 64 bits, a text or bytes with their length."""
    if isinstance(value, float):
        return key(number, FIXED64) + DOUBLE.pack(value)
    if isinstance(value, int):
        return key(number, VARINT) + _packed(value & 2**64 - 1)
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return key(number, BYTES) + _packed(len(data)) + data


def _packed(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
