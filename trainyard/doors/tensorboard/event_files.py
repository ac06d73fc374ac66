"""Event files: rows of TFRecords, each ``<u64 length><u32 check of it><body><u32 check of it>``, little-endian.

A check is the CRC-32C, rotated right by 15 bits, plus a constant (tensorflow/core/lib/hash/crc32c.h). A body is an
``Event`` in Protocol Buffers. A file grows while its writer lives, so its end may be torn.
"""

import io
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from google_crc32c import value as crc32c

from trainyard.grouping import grouped

FILE = re.compile(r".*tfevents.*")  # as TensorBoard finds them
HEADER = struct.Struct("<QI")
CHECK = struct.Struct("<I")
READ_BYTES = 1024 * 1024
FIRST_BYTES = 64 * 1024  # from which the names are learned
MAX_BODY_BYTES = 64 * 1024 * 1024  # what claims to be larger is damaged

MASK_DELTA, WHOLE = 0xA282EAD8, 0xFFFFFFFF


class Damage(NamedTuple):
    """A record that is not as it was written."""

    offset: int  # in the file
    why: str


class Piece(NamedTuple):
    """Records that lie behind each other; ``end`` is the offset behind the last."""

    bodies: list[bytes]
    end: int
    damages: list[Damage]
    is_broken: bool  # where the next record begins cannot be known


def check_of(data: bytes) -> int:
    """Return the masked CRC-32C."""
    crc: int = crc32c(data)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & WHOLE


def record(body: bytes) -> bytes:
    """Return the body as a record of an event file."""
    length = struct.pack("<Q", len(body))
    return b"".join((length, CHECK.pack(check_of(length)), body, CHECK.pack(check_of(body))))


def split(data: bytes, offset: int = 0) -> Piece:
    """Return the whole records at the beginning of ``data``, which lies at ``offset`` of its file."""
    bodies: list[bytes] = []
    damages: list[Damage] = []
    place, size = 0, len(data)
    unpack, value = HEADER.unpack_from, crc32c
    sound: dict[int, int] = {}  # lengths with their checks: most records of a file have one of a few
    while size - place >= HEADER.size:
        length, check = unpack(data, place)
        if sound.get(length) == check:
            pass
        elif length <= MAX_BODY_BYTES and check_of(data[place : place + 8]) == check:
            sound[length] = check
        else:
            damages.append(Damage(offset + place, "its length is damaged, so what follows cannot be read"))
            return Piece(bodies, offset + place, damages, True)
        start = place + HEADER.size
        end = start + length
        if end + CHECK.size > size:
            break
        body = data[start:end]
        crc = value(body)
        if ((crc >> 15 | crc << 17) + MASK_DELTA) & WHOLE == CHECK.unpack_from(data, end)[0]:
            bodies.append(body)
        else:
            damages.append(Damage(offset + place, "its checksum differs; it is left out"))
        place = end + CHECK.size
    return Piece(bodies, offset + place, damages, False)


def pieces(
    file: io.BufferedReader, end: int, start: int = 0, take: Callable[[bytes], list[tuple[int, int]]] | None = None
) -> Iterator[Piece]:
    """Yield the whole records from ``start`` up to ``end``, some READ_BYTES of them at a time: those that ``take``,
    which is given all, says that it left, as stretches between records. Raises OSError."""
    room = FIRST_BYTES
    while start < end:
        file.seek(start)
        data = file.read(min(room, end - start))
        left = [split(data[first:last], start + first) for first, last in (take(data) if take else [(0, len(data))])]
        bodies, damages = [one for part in left for one in part.bodies], [one for part in left for one in part.damages]
        piece = Piece(bodies, left[-1].end, damages, left[-1].is_broken)
        if piece.end == start and not piece.damages and room < end - start:  # a record that is larger
            room *= 2
            continue
        if piece.end > start or piece.damages:
            yield piece
        if piece.end == start or piece.is_broken:
            return
        start, room = piece.end, READ_BYTES


def written_at(name: str) -> int:
    """Return when the file was begun, in Unix seconds as its name says; 0 where it does not."""
    found = re.search(r"tfevents\.(\d{1,12})", PurePath(name).name)
    return int(found[1]) if found else 0


def event_folders(root: Path) -> dict[Path, list[Path]]:
    """Return the folders at and below ``root`` that have event files, each with these, the oldest first. Links are not
    followed. Raises OSError for a root that cannot be read."""
    next(root.iterdir(), None)
    named = [path for path in sorted(root.rglob("*tfevents*")) if FILE.fullmatch(path.name)]
    found = grouped((path.parent, path) for path in named if path.is_file() and not path.is_symlink())
    return {at: sorted(paths, key=lambda path: (written_at(path.name), path.name)) for at, paths in found.items()}
