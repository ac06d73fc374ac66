"""Spool files: where a producer's frames lie until the server has committed them.

A spool survives the SIGKILL of whoever writes it: a frame counts from the moment that ``write`` returned. One
producer writes one file, ``<producer>.spool``, and nobody else does.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path

from trainyard.records import HEADER, MAX_FRAME_BYTES, BadFrame, Frame, Payload, TornFrame, decode, encode

SUFFIX = ".spool"


class SpoolWriter:
    """Appends numbered frames to a producer's file. For one thread at a time.

    ``begin`` fills the first frame (``rank``, ``node``, ``role``, …); ``pid`` and ``at`` are added. Raises OSError
    when the folder or the file cannot be written.
    """

    def __init__(self, folder: Path, *, producer: str | None = None, begin: Payload) -> None:
        self.producer = producer or uuid.uuid4().hex
        self.path = folder / f"{self.producer}{SUFFIX}"
        self.sequence = 0
        self._length = 0
        self._is_torn = False
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        defaults = {"rank": -1, "node": "", "pid": os.getpid(), "at": time.time(), "role": "script"}
        try:
            self.append({**defaults, **begin, "t": "begin"})
        except OSError:
            self.abandon()
            with contextlib.suppress(OSError):
                self.path.unlink()
            raise

    def append(self, payload: Payload) -> int:
        """Write ``payload`` as the next frame and return its sequence.

        A payload without a kind ``t`` is taken for points when it has ``g``, else for logs. Raises OSError when the
        disk refuses; then nothing is written and the same sequence is used again.
        """
        kind = payload.get("t") or ("points" if "g" in payload else "logs")
        raw = encode({"p": self.producer, "q": self.sequence + 1, **payload, "t": kind})
        self._write(raw)
        self._length += len(raw)
        self.sequence += 1
        return self.sequence

    def close(self, reason: str = "finish") -> None:
        """Write the end frame and close the file. Raises OSError when the end frame cannot be written."""
        if self._fd < 0:
            return
        try:
            self.append({"t": "end", "at": time.time(), "reason": reason})
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file without an end frame (a forked child drops its parent's spool this way)."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, raw: bytes) -> None:
        if self._is_torn:
            self._cut_torn_tail()
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
    """Return the whole frames behind ``offset`` (at most some 16 MB) and the offset behind the last of them.

    Stops at a torn tail, which the writer may still complete. Raises BadFrame when the very first frame at
    ``offset`` is corrupt, and OSError when the file cannot be read.
    """
    with path.open("rb") as file:
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
