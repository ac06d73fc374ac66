"""Output of `up` and its children: sentences about them go to the terminal, what they log to a file each."""

import contextlib
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

    What waits is bounded; beyond it lines are left out here, with a line about it. The files have them all.
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
        self._put(text)

    def line(self, name: str, text: str) -> None:
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
    """A child's own log: appended to, and started anew when it has grown, keeping the one before.

    A disk without room never raises here. The lines that did not fit are counted, and the file says how many were
    left out as soon as it takes lines again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._num_left_out = 0
        self._is_closed = False
        with contextlib.suppress(OSError):
            self._file = self._open()

    def write(self, line: bytes) -> None:
        with self._lock:  # the child's thread and our own both write here
            if self._is_closed:
                return
            try:
                self._append(line)
            except OSError:
                self._num_left_out += 1

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()

    def _append(self, line: bytes) -> None:
        """Raises OSError where not all of the line could be written."""
        if self._file is None:
            self._file = self._open()
        if self._num_left_out:
            _write_all(self._file, f"-- {self._num_left_out} lines were left out: the disk was full\n".encode())
            self._num_left_out = 0
        _write_all(self._file, line)
        if self._file.tell() > KEEP_BYTES:
            self._file.close()
            self._file = None
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            self._file = self._open()

    def _open(self) -> BinaryIO:
        # Without a buffer: a line that does not fit must not be tried again with every later one.
        return self.path.open("ab", buffering=0)


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Write ``data`` or raise OSError; a full disk takes a part first and raises at the next try."""
    while data:
        data = data[file.write(data) :]


class LineCutter:
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
