"""Reads a producer's spool back, frame by frame and file by file, whatever became of the disk meanwhile.

Frames are not unpacked: length, checksum and head are enough to pass them on. Where bytes are damaged, reading goes on
at the next frame that is whole (each begins with its producer's name), and for every sequence that is missing there
comes a frame of the kind ``damaged``, so that the server learns of it and does not wait for ever.
"""

import os
from pathlib import Path
from typing import NamedTuple

from trainyard.contract.records import Damaged
from trainyard.spooling.frames import HEAD_START, HEADER, MAX_FRAME_BYTES, BadFrame, Frame, decode, pack
from trainyard.spooling.ledger import Ledger
from trainyard.spooling.plain_files import open_plain
from trainyard.spooling.writer import spool_files, spool_path

READ_BYTES = MAX_FRAME_BYTES + HEADER.size  # a frame of any size fits
MIN_FRAME_BYTES = 40  # a head has more: what claims to be shorter was never written, such as zeros after a power cut
EVIDENCE_BYTES = 64 * 1024
MAX_MISSING = 1_000_000  # frames; one that claims to be further ahead is none
BEFORE_NEEDLE = HEADER.size + 1  # a frame's bytes before its producer's name: the header and the byte of the map


class PassedFile(NamedTuple):
    number: int
    last: int  # its last sequence
    has_logs: bool


class SpoolReader:
    """Goes through the files of one producer, behind the sequence ``after``. Keeps no file open, and 1 MiB at most.

    With ``first_file`` it begins at that file, whatever the sequence of its first frame.
    """

    def __init__(self, folder: Path, producer: str, after: int = 0, *, first_file: int = 0) -> None:
        self.folder = folder
        self.producer = producer
        self.sequence = after if not first_file else -1  # of the frame that was returned last; -1: not known yet
        self.has_ended = False  # the end frame was seen
        self.number = first_file  # of the file that is being read
        self.has_logs = False  # that file holds lines of a log
        self.passed: list[PassedFile] = []  # files that were read to their end and have a successor
        self._needle = HEAD_START + producer.encode("ascii", "replace")
        self._restart()

    def read(self, room_bytes: int, numbers: list[int], *, is_over: bool = False) -> list[Frame]:
        """Return the next frames, at least one when there is one, else as many as have room.

        ``numbers`` are those of the producer's files, listed before this call; ``is_over`` says that nobody writes
        them any more. Raises OSError.
        """
        found: list[Frame] = []
        while room_bytes > 0 and (frame := self._next_frame(numbers, is_over)) is not None:
            found.append(frame)
            room_bytes -= len(frame.raw)
        return found

    def go_back(self, after: int) -> None:
        """Read on behind the sequence ``after``, from the first file that may have it."""
        kept = [file for file in self.passed if file.last <= after]
        if len(kept) < len(self.passed):
            self.number = self.passed[len(kept)].number
            self.passed = kept
        self.sequence = after
        self.has_ended = self.has_logs = False
        self._restart()

    def forget(self, number: int) -> None:
        """The file was deleted."""
        self.passed = [file for file in self.passed if file.number != number]

    def _restart(self) -> None:
        self._offset = 0  # of the data in the file
        self._data = b""
        self._at = 0
        self._damage = b""
        self._is_damaged = False
        self._waiting: Frame | None = None  # was read, but others are missing before it

    def _next_frame(self, numbers: list[int], is_over: bool) -> Frame | None:
        while True:
            if self._waiting is not None:
                return self._deliver(self._waiting)
            frame = self._parse() if self.number else None
            if frame is not None:
                self._take_in(frame)
            elif not self._fill() and not self._pass_end(numbers, is_over):
                if is_over and self._is_damaged and self.sequence >= 0:
                    return self._replacement()
                return None

    def _take_in(self, frame: Frame) -> None:
        self.has_logs |= frame.kind == "logs"
        if self.sequence < 0:
            self.sequence = frame.sequence - 1
        if frame.sequence > self.sequence:
            self._waiting = frame

    def _deliver(self, frame: Frame) -> Frame:
        if frame.sequence > self.sequence + 1:
            return self._replacement()
        self._waiting, self._damage, self._is_damaged = None, b"", False
        self.sequence = frame.sequence
        self.has_ended |= frame.kind == "end"
        return frame

    def _replacement(self) -> Frame:
        """Return a frame in place of one that is gone; the first of them holds the damaged bytes."""
        why = "damaged on the node's disk" if self._is_damaged else "missing on the node's disk"
        data, self._damage, self._is_damaged = self._damage, b"", False
        self.sequence += 1
        raw = pack(self.producer, self.sequence, Damaged(why=why, data=data))
        return Frame(self.producer, self.sequence, "damaged", raw)

    def _parse(self) -> Frame | None:
        """Return the next whole frame in the data, None where more data is needed."""
        while len(self._data) - self._at >= HEADER.size:
            length, _ = HEADER.unpack_from(self._data, self._at)
            if MIN_FRAME_BYTES <= length <= MAX_FRAME_BYTES:
                end = self._at + HEADER.size + length
                if end > len(self._data):
                    return None
                raw = self._data[self._at : end]
                if (frame := self._checked(raw)) is not None:
                    self._at = end
                    return frame
            if not self._skip(is_torn=length < MIN_FRAME_BYTES):
                return None
        return None

    def _checked(self, raw: bytes) -> Frame | None:
        try:
            found, _ = decode(raw)
        except BadFrame:
            return None
        is_near = self.sequence < 0 or found.sequence - self.sequence < MAX_MISSING
        return found if found.producer == self.producer and is_near else None

    def _skip(self, *, is_torn: bool) -> bool:
        """Go to where the next frame may begin, and return whether there is such a place in the data."""
        place = self._data.find(self._needle, self._at + 1 + BEFORE_NEEDLE)
        start = place - BEFORE_NEEDLE
        if place < 0:
            start = max(self._at, len(self._data) - BEFORE_NEEDLE - len(self._needle))
        self._is_damaged |= place >= 0 or not is_torn
        self._damage = (self._damage + self._data[self._at : start])[:EVIDENCE_BYTES]
        self._at = start
        return place >= 0

    def _fill(self) -> bool:
        """Read on in the file. False at its end; then what is left of it is forgotten, since its writer may cut it."""
        if not self.number:
            return False
        self._offset += self._at
        num_left = len(self._data) - self._at
        self._at = 0
        path = spool_path(self.folder, self.producer, self.number)
        try:
            with open_plain(path) as file:
                self._data = os.pread(file.fileno(), READ_BYTES, self._offset)
        except FileNotFoundError:
            self._data = b""
            return False
        return len(self._data) > num_left

    def _pass_end(self, numbers: list[int], is_over: bool) -> bool:
        """Go past the end of the file: past a torn frame to what follows it, or to the next file. False: to neither."""
        later = self._later(numbers)
        if self._data and (later or is_over):
            length = HEADER.unpack_from(self._data)[0] if len(self._data) >= HEADER.size else 0
            if self._skip(is_torn=length < MIN_FRAME_BYTES or HEADER.size + length > len(self._data)):
                return True
        if later or is_over:
            self._damage = (self._damage + self._data[self._at :])[:EVIDENCE_BYTES]
        if later:
            if self.number:
                self.passed.append(PassedFile(self.number, max(self.sequence, 0), self.has_logs))
            self.number, self.has_logs = later, False
            self._offset = 0
        elif is_over:
            self._offset += len(self._data)  # what was torn or damaged there is dealt with
        self._data = b""
        self._at = 0
        return later > 0

    def _later(self, numbers: list[int]) -> int:
        """Return the file behind this one, 0 when none is listed, and this one may still grow.

        A folder that is listed while files are made may show a later one and not an earlier one; so the earlier ones
        are asked for by name.
        """
        later = next((number for number in numbers if number > self.number), 0)
        if later and self.number and self._exists(self.number + 1):
            return self.number + 1
        while later > 1 and not self.number and self._exists(later - 1):
            later -= 1
        return later

    def _exists(self, number: int) -> bool:
        return spool_path(self.folder, self.producer, number).exists()


def last_sequence(folder: Path, producer: str, numbers: list[int]) -> int:
    """Return the sequence of the last frame in the producer's files, which nobody writes any more; 0 for none."""
    for number in reversed(numbers):
        reader = SpoolReader(folder, producer, first_file=number)
        while reader.read(READ_BYTES, numbers, is_over=True):
            pass
        if reader.sequence > 0:
            return reader.sequence
    return 0


def last_sequences(folder: Path) -> dict[str, int]:
    """Return the last sequence of every producer that has, or had, files in the folder."""
    found = Ledger(folder).producers()
    for producer, numbers in spool_files(folder).items():
        found[producer] = max(found.get(producer, 0), last_sequence(folder, producer, numbers))
    return {producer: last for producer, last in found.items() if last > 0}
