"""Most records of an event file are one number of a tag: they differ from the one before in time, step and value alone.
Once the parser of any message has read one, NumPy reads those of the same bytes, all of a buffer at once.
"""

import itertools
import struct
from collections.abc import Iterator
from typing import Any

from google_crc32c import value as crc32c

from trainyard.doors.tensorboard.event_files import MASK_DELTA, check_of
from trainyard.formats.arrays import numpy_or_none

HEADER_BYTES, FRAME_BYTES = 12, 16  # before a body; around it
TIME_BYTES = 9  # of the key and the double, at the beginning of a body
TIME_KEY, STEP_KEY, NUMBER_KEY = 0x09, 0x10, 0x15  # field numbers with their wire types
WIDTHS = 9  # of a step: absent, or up to 8 bytes
MAX_TAIL = 255  # bytes from behind the step up to the value
MAX_LAYOUTS = 10_000
LEAST_BYTES = 64 * 1024  # less is not worth the tables
ODD = 0x9E3779B97F4A7C15
Gap = tuple[int, int]
Found = tuple[str, Any, Any, Any]  # a tag, and its steps, times and values in the order of the file, of 64 bits each


class PackedReader:
    """Knows the tails of records: the bytes between step and value, which all points of a tag share."""

    def __init__(self) -> None:
        self.tags: dict[bytes, str] = {}  # by tail
        self._known: Known | None = None

    def learn(self, tail: bytes, tag: str) -> None:
        if len(tail) <= MAX_TAIL and len(self.tags) < MAX_LAYOUTS and tail not in self.tags:
            self.tags[tail] = tag
            self._known = None

    def read(self, data: bytes) -> tuple[Iterator[Found], list[Gap]]:
        """Return the points of whole and sound records that are known, and the stretches of data without these; the
        last one reaches to the end."""
        np = numpy_or_none() if self.tags and len(data) >= LEAST_BYTES else None
        if np is None:
            return iter(()), [(0, len(data))]
        if self._known is None:
            self._known = Known(np, self.tags)
        return self._known.read(data)


class Known:
    """Tables of the tails, made anew where there is another one."""

    def __init__(self, np: Any, tags: dict[bytes, str]) -> None:
        self.np = np
        tails = list(tags)
        self._num_words = max(len(tail) for tail in tails) // 8 + 1
        filled = b"".join(tail.rjust(8 * self._num_words, b"\0") for tail in tails)
        words = np.frombuffer(filled, "u8").reshape(len(tails), -1)[:, ::-1].T
        hashes = self._hash(words)
        order = np.argsort(hashes)
        self._hashes, self._words = hashes[order], np.ascontiguousarray(words[:, order])
        ordered = [tails[place] for place in order]
        self._tags = [tags[tail] for tail in ordered]
        self._tail_bytes = np.array([len(tail) for tail in ordered])
        self._lengths = np.array([check_of(struct.pack("<Q", length)) for length in range(256)], "u4")
        self._masks = np.array([(1 << 8 * width) - 1 for width in range(WIDTHS)], "u8")
        self._checks = np.zeros((len(tails), WIDTHS), "u4")  # CRCs of bodies whose time, step and value are zeros
        for row, tail in enumerate(ordered):
            for width in range(WIDTHS):
                step = bytes((STEP_KEY, *bytes(width))) if width else b""
                body = bytes((TIME_KEY, *bytes(8))) + step + tail + bytes(4)
                self._checks[row, width] = crc32c(body)
        self._shares = _shares(np, max(map(len, tails)) + 4 + WIDTHS + 8)

    def read(self, data: bytes) -> tuple[Iterator[Found], list[Gap]]:
        np = self.np
        octets = np.frombuffer(data, "u1")
        halves, words = np.ndarray(len(data) - 3, "u4", data, 0, (1,)), np.ndarray(len(data) - 7, "u8", data, 0, (1,))
        at, lengths = self._sound_heads(data, halves, words)
        body = at + HEADER_BYTES
        value = body + lengths - 4
        has_step = octets[body + TIME_BYTES] == STEP_KEY
        step = words[body + TIME_BYTES + 1]  # from its lowest byte on
        width, more = has_step.astype("i8"), has_step
        for place in range(WIDTHS - 1):
            more = more & (step >> np.uint8(8 * place + 7) & np.uint8(1) == 1)
            if not more.any():
                break
            width += more
        tail = body + TIME_BYTES + width + has_step
        tails = self._tails_of(words, tail, value)
        row = np.searchsorted(self._hashes, self._hash(tails)).clip(0, len(self._hashes) - 1)
        fits = (width < WIDTHS) & (value - tail == self._tail_bytes[row]) & (octets[body] == TIME_KEY)
        for known, one in zip(self._words, tails, strict=True):
            fits &= known[row] == one
        at, row, width, step, body, value = (one[fits] for one in (at, row, width, step, body, value))
        step = step & self._masks[width]
        times, values = words[body + 1], halves[value]
        behind = self._tail_bytes[row] + 4
        crc = self._checks[row, width] ^ self._share(times, 8, behind + width + (width > 0)) ^ self._share(values, 4, 0)
        for one in range(1, WIDTHS):
            if (some := width == one).any():
                crc[some] ^= self._share(step[some], one, behind[some])
        sound = (crc >> 15 | crc << 17) + np.uint32(MASK_DELTA) == halves[value + 4]
        sound &= np.isfinite(times.view("f8"))
        at, row, step, times, values, value = (one[sound] for one in (at, row, step, times, values, value))
        return self._found(row, step, times.view("f8"), values.view("f4")), _gaps(np, at, value + 8, len(data))

    def _sound_heads(self, data: bytes, halves: Any, words: Any) -> tuple[Any, Any]:
        """Return where records begin whose lengths are sound, up to the first that is not, and the lengths of those
        that may be a number."""
        np = self.np
        starts, end = _chain(data)
        at = np.array(starts, "i8")
        lengths = np.diff(at, append=end) - FRAME_BYTES
        is_bad = (lengths < 256) & (
            (words[at] != lengths.astype("u8")) | (halves[at + 8] != self._lengths[lengths & 255])
        )
        last = int(is_bad.argmax()) if is_bad.any() else len(at)
        is_wide = lengths[:last] >= TIME_BYTES + 12
        return at[:last][is_wide], lengths[:last][is_wide]

    def _found(self, row: Any, raw: Any, times: Any, values: Any) -> Iterator[Found]:
        np = self.np
        steps = np.zeros(len(raw), "u8")
        for place in range(8):
            part = raw >> np.uint64(8 * place)
            if not part.any():
                break
            steps |= (part & np.uint64(0x7F)) << np.uint64(7 * place)
        order = np.argsort(row, kind="stable")
        bounds = np.flatnonzero(np.diff(row[order], prepend=-1, append=len(self._tags) + 1))
        parts = [order[first:last] for first, last in itertools.pairwise(bounds)]
        for part in sorted(parts, key=lambda one: int(one[0])):
            yield self._tags[row[part[0]]], steps[part].astype("i8"), times[part], values[part].astype("f8")

    def _tails_of(self, words: Any, tail: Any, value: Any) -> list[Any]:
        """Return the bytes of each tail as integers, from its end on, filled with zeros."""
        np = self.np
        found = []
        for index in range(self._num_words):
            place = value - 8 * (index + 1)
            beyond = 8 * (tail - place).clip(0, 8).astype("u8")
            found.append(np.where(beyond < 64, words[place.clip(0)] >> beyond << beyond, np.uint64(0)))
        return found

    def _hash(self, words: Any) -> Any:
        found = self.np.zeros(len(words[0]), "u8")
        for one in words:
            found = (found ^ one) * self.np.uint64(ODD)
            found ^= found >> self.np.uint64(29)
        return found

    def _share(self, integers: Any, num_bytes: int, behind: Any) -> Any:
        """Return what bytes add to the CRC of a body that has so many bytes behind them."""
        found = self.np.zeros(len(integers), "u4")
        for place in range(num_bytes):
            byte = integers >> self.np.uint8(8 * place) & self.np.uint8(0xFF)
            found ^= self._shares[256 * (behind + num_bytes - 1 - place) + byte.astype("i8")]
        return found


def _chain(data: bytes) -> tuple[list[int], int]:
    """Return where records begin, and where the last of these ends. That lengths below 256 are sound is to be seen."""
    starts = []
    place, last = 0, len(data) - FRAME_BYTES
    while place <= last:
        size = data[place] + FRAME_BYTES
        if data[place + 1] or data[place + 2]:
            head, check = data[place : place + 8], int.from_bytes(data[place + 8 : place + 12], "little")
            if check_of(head) != check:
                break
            size = int.from_bytes(head, "little") + FRAME_BYTES
        if place + size > len(data):
            break
        starts.append(place)
        place += size
    return starts, place


def _gaps(np: Any, starts: Any, ends: Any, size: int) -> list[Gap]:
    """Return what lies between records; the last stretch reaches to the end, and may be empty."""
    if not len(starts):
        return [(0, size)]
    begins, stops = np.append(0, ends), np.append(starts, size)
    wide = begins < stops
    wide[-1] = True
    return list(zip(begins[wide].tolist(), stops[wide].tolist(), strict=True))


def _shares(np: Any, distance: int) -> Any:
    """Return a table of CRC-32C: what a byte adds, by the bytes behind it. The CRC of two texts of one length differs
    by the shares of the bytes in which they differ."""
    zero = crc32c(b"\0")
    table = np.array([crc32c(bytes((byte,))) ^ zero for byte in range(256)], "u4")
    rows = [table]
    for _ in range(distance):
        rows.append(rows[-1] >> 8 ^ table[rows[-1] & 0xFF])
    return np.concatenate(rows)
