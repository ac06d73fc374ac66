"""Moves what ranks print from their files into a spool, and goes on where a dead supervisor stopped."""

import contextlib
import ctypes
import os
import re
import select
import sys
import time
from pathlib import Path

import structlog

from trainyard.contract.orders import Order
from trainyard.contract.records import STREAMS, BadRecord, Begin, Logs, LossCounts, Lost, Points, Stream
from trainyard.spooling.frames import BadFrame
from trainyard.spooling.ledger import Ledger
from trainyard.spooling.plain_files import open_plain
from trainyard.spooling.writer import SpoolLimit, SpoolWriter, read_frames
from workers.attempt.folder import AttemptFolder
from workers.supervisor.records.rule_watch import RuleWatch

ESCAPE = re.compile(r"\x1b\[([0-9;:]*)([@-~])")
ERASE = re.compile(r"\x1b\[[02]?K")
RESET = "\x1b[0m"
LONGEST_STYLE = 64  # characters of escapes: who writes more without a reset gets the last of them

Cell = tuple[str, str]  # a letter, and the escapes of its style
LINE_LIMIT_BYTES = 64 * 1024
LINE_EXTRA_BYTES = 16  # what a line costs beside its text: its time, and the lengths
log = structlog.get_logger(__name__)

READ_BYTES = 256 * 1024
FRAME_BYTES = 255 * 1024  # of lines, so that a frame stays below 256 KiB
ROOM_WAIT_S = 60.0
STATE_EVERY_S = 5.0  # so often a progress bar that does not end its line is shown as it is


class LogTail:
    def __init__(self, path: Path, rank: int, stream: Stream, offset: int = 0, rules: RuleWatch | None = None) -> None:
        self.rank, self.stream, self._path, self._rules = rank, stream, path, rules
        self._offset = offset
        self._bar_since: float | None = None  # a line is not ended and has a carriage return: the state of then is old
        self._was_bar = False  # the last line was such a state

    def move(self, spool: SpoolWriter, *, is_final: bool = False, now: float | None = None) -> bool:
        """Append the next lines to ``spool``; False when there is none. Raises OSError; then they come again.

        The frame carries the offset behind its lines, so that a successor knows where to go on.
        """
        try:
            with open_plain(self._path) as file:
                file.seek(self._offset)
                data = file.read(READ_BYTES)
        except FileNotFoundError:  # the rank has not come so far
            return False
        takes_state = self._is_due(data, time.monotonic() if now is None else now)
        lines, taken = split_lines(data, is_final=is_final, takes_state=takes_state, room_bytes=FRAME_BYTES)
        offset = self._offset + taken
        if self._was_bar and lines[:1] == [""]:  # the end of a line that was shown
            lines = lines[1:]
        if lines:
            at = time.time()
            spool.append(Logs(self.rank, self.stream, [(at, line) for line in lines], offset))
            if self._rules is not None:
                self._rules.read(lines, rank=self.rank, stream=self.stream, at=at)
                if points := self._rules.take_points():
                    spool.append(Points(points))
        if taken:
            self._was_bar = takes_state and not data[:taken].endswith(b"\n")
        self._offset = offset
        return bool(lines)

    def _is_due(self, data: bytes, now: float) -> bool:
        """Return whether a progress bar has gone on for so long that its state is to be seen."""
        if b"\r" not in data[data.rfind(b"\n") + 1 :]:
            self._bar_since = None
            return False
        if self._bar_since is None:
            self._bar_since = now
        if now - self._bar_since < STATE_EVERY_S:
            return False
        self._bar_since = now
        return True

    def drain(self, spool: SpoolWriter, limit: SpoolLimit, *, until: float) -> None:
        """Move everything, an unfinished last line included. While the spool is at its limit wait until ``until``
        (monotonic) for what is shipped to make room; what then is left is counted."""
        for is_final in (False, True):
            while self._waits_for_room(spool, limit, until) and self.move(spool, is_final=is_final):
                pass
        if num_lines := self._num_left():
            log.error("collect.limit", path=str(self._path), lines=num_lines)
            spool.append(Lost(LossCounts(spool_limit=num_lines)))

    def _waits_for_room(self, spool: SpoolWriter, limit: SpoolLimit, until: float) -> bool:
        while not limit.has_room(spool.num_bytes):
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def _num_left(self) -> int:
        try:
            with open_plain(self._path) as file:
                file.seek(self._offset)
                return sum(part.count(b"\n") or 1 for part in iter(lambda: file.read(READ_BYTES), b""))
        except FileNotFoundError:
            return 0


def save_unread_output(order: Order, folder: AttemptFolder) -> None:
    """Move what the ranks printed and a dead supervisor did not read. No other process may use the spool."""
    offsets = _offsets(folder.spool)
    tails = []
    for stream in STREAMS:
        for path in sorted(folder.logs.glob(f"rank-*.{stream}")):
            rank = int(path.stem.removeprefix("rank-"))
            offset = offsets.get(f"{rank} {stream}", 0)
            if path.lstat().st_size > offset:
                tails.append(LogTail(path, rank, stream, offset))
    if not tails:
        return
    spool = SpoolWriter(folder.spool, begin=Begin(node=order.node_name, role="node"))
    limit = SpoolLimit(folder.spool)
    for tail in tails:
        tail.drain(spool, limit, until=time.monotonic())
    spool.close("lost")


def _offsets(folder: Path) -> dict[str, int]:
    """Return how far each stream was read, by the log frames in the spools and the ledger of deleted ones."""
    found = dict(Ledger(folder).offsets)
    for path in folder.glob("*.spool"):
        for stream, offset in stream_offsets(path).items():
            found[stream] = max(offset, found.get(stream, 0))
    return found


def stream_offsets(path: Path) -> dict[str, int]:
    """Return how far the log frames in a spool file have read each stream ("RANK STREAM")."""
    found: dict[str, int] = {}
    position = 0
    while True:
        try:
            frames, position = read_frames(path, position)
        except (BadFrame, FileNotFoundError):
            return found
        if not frames:
            return found
        for frame in frames:
            if frame.kind != "logs":
                continue
            with contextlib.suppress(BadRecord):  # a rank may write here, and anything
                record = frame.record()
                assert isinstance(record, Logs)
                stream = f"{record.rank} {record.stream}"
                found[stream] = max(record.offset, found.get(stream, 0))


# From the bytes that a program prints to lines of text.


def split_lines(
    data: bytes, *, is_final: bool = False, takes_state: bool = False, room_bytes: int = 2**62
) -> tuple[list[str], int]:
    """Return the whole lines in ``data`` and the number of bytes that they took.

    A line that is not ended yet stays for the next time, unless ``is_final`` or it is over-long. Over-long lines are
    cut into pieces of LINE_LIMIT_BYTES. Of what a progress bar overwrote with carriage returns that counts which a
    terminal would show at the end. ``takes_state``: what it shows of a line that is not ended yet is a line, too.
    No more lines are taken than have room, the first apart (an invalid byte becomes a character of three).
    """
    lines: list[str] = []
    taken = 0
    while taken < len(data):
        end = data.find(b"\n", taken)
        if end < 0:
            rest = data[taken:]
            if is_final or len(rest) >= LINE_LIMIT_BYTES:
                piece = _piece(rest, is_whole=is_final)
            elif takes_state:
                piece, takes_state = _state(rest), False
            else:
                break
            after = taken + len(piece)
        elif end - taken > LINE_LIMIT_BYTES:
            piece = _piece(data[taken:end], is_whole=True)
            after = taken + len(piece)
        else:
            piece, after = data[taken:end], end + 1
        if after == taken:
            break
        line = shown(piece.decode("utf-8", "replace"))
        room_bytes -= len(line.encode()) + LINE_EXTRA_BYTES
        if lines and room_bytes < 0:
            break
        lines.append(line)
        taken = after
    return lines, taken


def _piece(data: bytes, *, is_whole: bool) -> bytes:
    """Return the first LINE_LIMIT_BYTES of ``data``, less where that would cut in two what belongs together: what a
    program wrote behind a carriage return, or a character of UTF-8."""
    if len(data) <= LINE_LIMIT_BYTES and is_whole:
        return data
    piece = data[:LINE_LIMIT_BYTES]
    if (start := piece.rfind(b"\r")) > 0:
        return piece[:start]
    for back in range(1, min(4, len(piece))):
        if piece[-back] >= 0xC0:  # a character begins here; it has as many bytes as its first one says
            length = 4 if piece[-back] >= 0xF0 else 3 if piece[-back] >= 0xE0 else 2
            return piece if back >= length else piece[:-back]
    return piece


def _state(rest: bytes) -> bytes:
    """Return a line's bytes up to its last carriage return: the rest may be half of the next state. A line without one,
    but at its beginning, is returned whole."""
    start = rest.rfind(b"\r")
    piece = rest[:start] if start > 0 else rest
    return piece if shown(piece.decode("utf-8", "replace")).strip() else b""


# Lines as a terminal shows them where a program goes back to a line's beginning, as progress bars do. Pure.
#
# A text that is written over a longer one leaves the longer one's end standing, unless the program erases it. Colours
# stay with the letters that they were written with.


def shown(line: str) -> str:
    """Return what is seen of ``line`` at its end."""
    if "\r" not in line:
        return line
    cells: list[Cell] = []
    style = ""
    for part in _seen(line.split("\r")):
        style = _write(cells, part, style)
    return _joined(cells)


def _seen(parts: list[str]) -> list[str]:
    """Return the parts of which something may be seen: a bar that is as long as ever hides all its states but one."""
    found: list[str] = []
    width = 0
    for part in reversed(parts):
        length = len(ESCAPE.sub("", part)) if "\x1b" in part else len(part)
        is_erased = "\x1b" in part and ERASE.search(part) is not None
        if length > width or is_erased or not found:
            found.append(part)
            width = max(width, length)
        if is_erased:
            break
    return found[::-1]


def _write(cells: list[Cell], part: str, style: str) -> str:
    """Write from the first column on, and return the style that is left."""
    column = place = 0
    for escape in [*ESCAPE.finditer(part), None]:
        text = part[place : escape.start() if escape else len(part)]
        cells[column : column + len(text)] = [(letter, style) for letter in text]
        column += len(text)
        if escape is None:
            break
        place = escape.end()
        if escape[2] == "K":  # erases what is behind, before, or both
            if escape[1] in ("", "0", "2"):
                del cells[column:]
            if escape[1] in ("1", "2"):
                cells[:column] = [(" ", "")] * column
        elif escape[2] == "m":
            style = "" if escape[1] in ("", "0") else _last(style + escape[0])
    return style


def _last(style: str) -> str:
    """Return the last of the escapes, each whole."""
    kept = style[-LONGEST_STYLE:]
    start = kept.find("\x1b")
    return kept[start:] if start >= 0 else ""


def _joined(cells: list[Cell]) -> str:
    while cells and cells[-1] == (" ", ""):
        cells.pop()
    out: list[str] = []
    style = ""
    for letter, own in cells:
        if own != style:
            out += [RESET, own] if style else [own]
            style = own
        out.append(letter)
    return "".join(out) + (RESET if style else "")


IN_MODIFY, IN_CREATE = 0x002, 0x100
POLL_S = 0.05


class FolderWatch:
    """Wakes one thread when something happened in the folder; ``wake`` may be called by any thread."""

    def __init__(self, folder: Path) -> None:
        self._read, self._write = os.pipe()
        self._inotify = _watch(folder)
        self._poll = select.poll()
        os.set_blocking(self._write, False)
        for descriptor in (self._read, self._inotify):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)
                self._poll.register(descriptor, select.POLLIN)

    def wait(self, limit_s: float) -> None:
        """Return when a file in the folder was made or has grown, when somebody called ``wake``, or when the time is
        over. What happened before the call counts."""
        if self._inotify < 0:
            limit_s = min(limit_s, POLL_S)
        for descriptor, _ in self._poll.poll(max(0.0, limit_s) * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, 65536)

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it wakes anyway; closed: no thread waits any more
            os.write(self._write, b"!")

    def close(self) -> None:
        for descriptor in (self._read, self._write, self._inotify):
            if descriptor >= 0:
                os.close(descriptor)
        self._read = self._write = self._inotify = -1


def _watch(folder: Path) -> int:
    """Return an inotify descriptor for the folder, -1 where there is none to be had."""
    if not sys.platform.startswith("linux"):
        return -1
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor >= 0 and library.inotify_add_watch(descriptor, os.fsencode(folder), IN_MODIFY | IN_CREATE) < 0:
        os.close(descriptor)
        descriptor = -1
    if descriptor < 0:
        log.warning("watch.polling", folder=str(folder), error=os.strerror(ctypes.get_errno()))
    return descriptor
