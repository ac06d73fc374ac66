"""Spool files: where a producer's frames lie until the server has committed them.

A spool survives the SIGKILL of whoever writes it: a frame counts from the moment that ``write`` returned. One
producer writes the files ``<producer>.<number>.spool``, numbered from 1, and nobody else does; once a file has a
successor it is never written again.
"""

import contextlib
import os
import time
import uuid
from pathlib import Path

from msgspec.structs import replace

from trainyard.contract.records import AnyRecord, Begin, End
from trainyard.spooling.frames import HEADER, MAX_FRAME_BYTES, BadFrame, Frame, TornFrame, decode, pack
from trainyard.spooling.plain_files import open_plain

SUFFIX = ".spool"
FILE_BYTES = int(os.environ.get("TRAINYARD_SPOOL_FILE_BYTES") or 8 * 1024 * 1024)
LIMIT_BYTES = 8 * 1024**3
LOOK_EVERY_S = 1.0
LOOK_EVERY_BYTES = 1024 * 1024

Files = dict[str, list[int]]  # the numbers of each producer's files, in order


def spool_path(folder: Path, producer: str, number: int) -> Path:
    return folder / f"{producer}.{number}{SUFFIX}"


def spool_files(folder: Path) -> Files:
    """Return what lies in the folder; nothing where there is none."""
    found: Files = {}
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            producer, _, number = path.stem.rpartition(".")
            if path.suffix == SUFFIX and producer and number.isdecimal():
                found.setdefault(producer, []).append(int(number))
    return {producer: sorted(numbers) for producer, numbers in found.items()}


def spool_bytes(folder: Path) -> int:
    """Return how much the spool files in the folder hold."""
    total = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile, as what is shipped is
                    total += entry.stat(follow_symlinks=False).st_size
    return total


class SpoolLimit:
    """Limit of the spool files of a folder together: TRAINYARD_SPOOL_LIMIT_BYTES, else LIMIT_BYTES.

    Each process looks for itself, every second and whenever it has written LOOK_EVERY_BYTES, so the limit may be
    exceeded by about that much for each.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._limit_bytes = int(os.environ.get("TRAINYARD_SPOOL_LIMIT_BYTES") or LIMIT_BYTES)
        self._looked_at = float("-inf")
        self._looked_bytes = 0
        self._has_room = True

    def has_room(self, num_written: int = 0) -> bool:
        """Return whether there is room; ``num_written`` are the bytes that the caller has written in all."""
        now = time.monotonic()
        has_grown = self._has_room and num_written - self._looked_bytes > LOOK_EVERY_BYTES
        if has_grown or now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at, self._looked_bytes = now, max(num_written, self._looked_bytes)
            self._has_room = spool_bytes(self._folder) < self._limit_bytes
        return self._has_room


class SpoolWriter:
    """Appends numbered frames to a producer's files. For one thread at a time.

    ``begin`` is the first record; ``pid`` and ``at`` are added where it has none. A file that has ``file_bytes`` gets
    a successor. Raises OSError when the folder or the file cannot be written.
    """

    def __init__(
        self, folder: Path, *, producer: str | None = None, begin: Begin, file_bytes: int = FILE_BYTES
    ) -> None:
        self.producer = producer or uuid.uuid4().hex
        self.folder = folder
        self.number = 0
        self.sequence = 0
        self.num_bytes = 0  # in all files
        self._file_bytes = file_bytes
        self._fd = -1
        self._length = 0
        self._is_torn = False
        folder.mkdir(parents=True, exist_ok=True)
        self._open_next()
        try:
            self.append(replace(begin, pid=begin.pid or os.getpid(), at=begin.at or time.time()))
        except OSError:
            self.abandon()
            with contextlib.suppress(OSError):
                self.path.unlink()
            raise

    @property
    def path(self) -> Path:
        """The file that is written now."""
        return spool_path(self.folder, self.producer, self.number)

    def append(self, record: AnyRecord) -> int:
        """Write ``record`` as the next frame and return its sequence.

        Raises OSError when the disk refuses; then nothing is written and the same sequence is used again.
        """
        raw = pack(self.producer, self.sequence + 1, record)
        if self._is_torn:
            self._cut_torn_tail()
        if self._length >= self._file_bytes:
            self._open_next()
        self._write(raw)
        self._length += len(raw)
        self.num_bytes += len(raw)
        self.sequence += 1
        return self.sequence

    def close(self, reason: str = "finish") -> None:
        """Write the end frame and close the file. Raises OSError when the end frame cannot be written."""
        if self._fd < 0:
            return
        try:
            self.append(End(at=time.time(), reason=reason))
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file without an end frame (a forked child drops its parent's spool this way)."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open_next(self) -> None:
        """Go on in a new file. Where that cannot be made the old one stays open, whole as it is."""
        path = spool_path(self.folder, self.producer, self.number + 1)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        self.abandon()
        self._fd = fd
        self.number += 1
        self._length = 0

    def _write(self, raw: bytes) -> None:
        view = memoryview(raw)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            # Half a frame in the middle would hide all that follows; readers stop before it meanwhile.
            self._is_torn = True
            with contextlib.suppress(OSError):
                self._cut_torn_tail()
            raise

    def _cut_torn_tail(self) -> None:
        os.ftruncate(self._fd, self._length)
        self._is_torn = False


def read_frames(path: Path, offset: int = 0) -> tuple[list[Frame], int]:
    """Return the whole frames behind ``offset`` (at most some MAX_FRAME_BYTES) and the offset behind the last.

    Stops at a torn tail, which the writer may still complete. Raises BadFrame when the very first frame at
    ``offset`` is corrupt, and OSError when the file cannot be read.
    """
    with open_plain(path) as file:
        file.seek(offset)
        data = file.read(HEADER.size + MAX_FRAME_BYTES)
    found: list[Frame] = []
    position = 0
    while position < len(data):
        try:
            frame, position = decode(data, position)
        except TornFrame:
            break
        except BadFrame:
            if not found:
                raise
            break
        found.append(frame)
    return found, offset + position
