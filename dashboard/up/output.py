"""What the children say: every line to its own file, and with a coloured name in front to the terminal."""

from __future__ import annotations

import queue
import sys
import threading
from pathlib import Path
from typing import BinaryIO

COLOURS = (36, 33, 35, 32, 34, 95, 96, 92)
KEEP_BYTES = 10 * 1024 * 1024  # of a log file, and as much again of the one before it
LONGEST_LINE = 64 * 1024
MOST_WAITING_LINES = 20_000


class Console:
    """Writes to the terminal from a thread of its own: one that is stopped with Ctrl-S must stop nobody else.

    What waits is bounded; beyond it lines are left out here, with a line that says so. The files have them all.
    """

    def __init__(self, *, is_coloured: bool) -> None:
        self.is_coloured = is_coloured
        self.width = 8
        self._colours: dict[str, int] = {}
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_WAITING_LINES)
        self._num_left_out = 0
        self._thread = threading.Thread(target=self._write, name="console", daemon=True)
        self._thread.start()

    def say(self, text: str = "") -> None:
        """Print a line of our own."""
        self._put(text)

    def line(self, name: str, text: str) -> None:
        """Print a line of the child ``name``."""
        self.width = max(self.width, len(name))
        head = f"{name:<{self.width}} |"
        if self.is_coloured:
            colour = self._colours.setdefault(name, COLOURS[len(self._colours) % len(COLOURS)])
            head = f"\x1b[{colour}m{head}\x1b[0m"
        else:
            text = text.replace("\x1b", "")
        self._put(f"{head} {text}")

    def close(self, timeout_s: float = 2.0) -> None:
        self._put(None)
        self._thread.join(timeout_s)

    def _put(self, text: str | None) -> None:
        try:
            if self._num_left_out:
                self._lines.put_nowait(f"… {self._num_left_out} lines are in the log files only")
                self._num_left_out = 0
            self._lines.put_nowait(text)
        except queue.Full:
            self._num_left_out += 1

    def _write(self) -> None:
        while (text := self._lines.get()) is not None:
            try:
                sys.stdout.write(text + "\n")
                if self._lines.empty():
                    sys.stdout.flush()
            except (OSError, ValueError):  # nobody reads us any more; the files go on
                continue


class LogFile:
    """A child's own log: appended to, and started anew when it has grown, keeping the one before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file: BinaryIO = path.open("ab")

    def write(self, line: bytes) -> None:
        with self._lock:  # the child's thread and our own both write here
            if self._file.closed:
                return
            self._file.write(line)
            self._file.flush()
            if self._file.tell() > KEEP_BYTES:
                self._file.close()
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
                self._file = self.path.open("ab")

    def close(self) -> None:
        with self._lock:
            self._file.close()


class Lines:
    """Cuts what a pipe delivers into lines, and very long ones into pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        pieces = [line[at : at + LONGEST_LINE] for line in lines for at in range(0, max(len(line), 1), LONGEST_LINE)]
        while len(self._rest) > LONGEST_LINE:
            pieces.append(self._rest[:LONGEST_LINE])
            self._rest = self._rest[LONGEST_LINE:]
        return pieces

    def end(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest] if rest else []
