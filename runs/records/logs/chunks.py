"""Log lines as compressed bytes, and back, exactly.

A chunk has its lines' texts, joined by line feeds as UTF-8, so that a search goes over them as they lie; and beside
them what readers need to find lines without opening a text: times, levels, and the batches that they came with.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from runs.records.logs.levels import NONE, hints, level_of
from runs.records.metrics import encrypted
from runs.records.metrics.codec import BadSegment, Floats, pack_all, unpack_all
from trainyard.at_rest.keyring import Keyring

LEVEL = 1  # of zstandard: 3 takes a third longer and gains nothing on such texts
LINES_PER_CHUNK = 4096
BYTES_PER_CHUNK = 512 * 1024  # of text; a longer line is a chunk of its own
VERSION = 2
HEAD = struct.Struct("<BI")  # version, bytes of levels
LINE_FEED = "\u2424"  # what stands for a line feed within a line
COLUMNS_KEPT = 512

Codes = NDArray[np.uint8]
Places = NDArray[np.int64]


class Columns(NamedTuple):
    """Facts about consecutive lines beside their texts: three arrays of one length."""

    times: Floats  # Unix seconds, by the rank's clock
    levels: Codes
    batches: Places  # the cursor of the commit that each came with; never falls

    @property
    def size(self) -> int:
        return int(self.times.size)

    def part(self, start: int, end: int) -> "Columns":
        return Columns(self.times[start:end], self.levels[start:end], self.batches[start:end])


@dataclass(frozen=True)
class Texts:
    data: bytes
    is_readable: bool = True  # if not, a sentence stands in place of each line

    @cached_property
    def starts(self) -> Places:
        feeds = np.flatnonzero(np.frombuffer(self.data, np.uint8) == 10)
        return np.concatenate([np.zeros(1, np.int64), feeds + 1])

    def line_at(self, offset: int) -> int:
        """Return the number of the line that has this byte, or the feed at its end."""
        return int(np.searchsorted(self.starts, offset, "right")) - 1

    def line(self, number: int) -> bytes:
        start = int(self.starts[number])
        end = int(self.starts[number + 1]) - 1 if number + 1 < self.starts.size else len(self.data)
        return self.data[start:end]

    def text(self, number: int) -> str:
        return self.line(number).decode()


def encoded(text: str) -> bytes:
    """Return a line as it is stored: UTF-8 without line feeds."""
    line = text.encode("utf-8", "replace")
    return line.replace(b"\n", LINE_FEED.encode()) if b"\n" in line else line


def encode_columns(columns: Columns) -> bytes:
    levels = zstandard.ZstdCompressor(level=LEVEL).compress(columns.levels.tobytes())
    return HEAD.pack(VERSION, len(levels)) + levels + pack_all(columns.times, columns.batches)


@lru_cache(COLUMNS_KEPT)
def decode_columns(data: bytes) -> Columns:
    """Return the columns that encode_columns() was given; nobody writes into them. Raises BadSegment."""
    if len(data) < HEAD.size or data[0] != VERSION:
        raise BadSegment("unknown version of a log chunk")
    end = HEAD.size + HEAD.unpack_from(data)[1]
    levels = np.frombuffer(_decompressed(data[HEAD.size : end]), np.uint8)
    times, batches = unpack_all(data[end:], 2)
    times.flags.writeable = batches.flags.writeable = False
    if not times.size == levels.size == batches.size:
        raise BadSegment(f"{times.size} times, {levels.size} levels, {batches.size} batches")
    return Columns(times, levels, batches)


def encode_texts(lines: Sequence[bytes]) -> bytes:
    """Return at least one line as encoded() gives them, compressed."""
    return zstandard.ZstdCompressor(level=LEVEL).compress(b"\n".join(lines))


def decode_texts(data: bytes) -> Texts:
    """Return the lines that encode_texts() was given. Raises BadSegment."""
    return Texts(_decompressed(data))


class ChunkPlace(NamedTuple):
    """Place that the texts of a chunk are bound to where they are encrypted."""

    run_id: str
    stream_id: int
    first_line: int

    def hide(self, keyring: Keyring, data: bytes) -> bytes:
        return encrypted.hide(keyring, self.run_id, f"log|{self.stream_id}|{self.first_line}", data)

    def texts(self, data: bytes) -> Texts:
        """Raises BadSegment, and encrypted.Unreadable."""
        return decode_texts(encrypted.reveal(self.run_id, f"log|{self.stream_id}|{self.first_line}", data))

    def shown_texts(self, data: bytes, num_lines: int) -> Texts:
        """Return the lines for readers; in place of each the reason where its key is gone. Raises BadSegment."""
        try:
            return self.texts(data)
        except encrypted.Unreadable as error:
            return Texts(b"\n".join([encoded(str(error))] * num_lines), is_readable=False)


def _decompressed(data: bytes) -> bytes:
    try:
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise BadSegment(str(error)) from error


def levels_of(lines: Sequence[bytes]) -> Codes:
    """Return the level of each line. One look over all of them spares most the closer one."""
    levels = np.full(len(lines), NONE, np.uint8)
    hint = hints()
    for number in lines_with(lambda data, at: offset_of(hint.search(data, at)), Texts(b"\n".join(lines))):
        levels[number] = level_of(lines[number].decode())
    return levels


def lines_with(find: Callable[[bytes, int], int], texts: Texts, first: int = 0) -> Iterator[int]:
    """Yield the numbers of the lines, from ``first`` on, in which ``find`` (given the bytes and where to begin) finds
    something: it returns the offset, -1 for nothing."""
    if first and first >= texts.starts.size:
        return
    at = find(texts.data, int(texts.starts[first]) if first else 0)  # most chunks have nothing: no line is looked up
    while at >= 0:
        yield texts.line_at(at)
        end = texts.data.find(b"\n", at)
        at = find(texts.data, end + 1) if end >= 0 else -1


def offset_of(match: Any) -> int:
    return -1 if match is None else int(match.start())


def placed(times: Floats, first: float) -> Floats:
    """Return the times by which lines are ordered: where a clock went back, the latest so far counts. ``first`` is
    that of the first line, which knows the lines before it."""
    return np.maximum(np.maximum.accumulate(times), first) if times.size else times


def cuts(sizes: Sequence[int]) -> list[int]:
    """Return where chunks begin in lines of these sizes in bytes, and where the last one ends."""
    found, num_bytes = [0], 0
    for place, size in enumerate(sizes):
        if place - found[-1] >= LINES_PER_CHUNK or (num_bytes and num_bytes + size > BYTES_PER_CHUNK):
            found.append(place)
            num_bytes = 0
        num_bytes += size + 1
    return [*found, len(sizes)] if sizes else found
