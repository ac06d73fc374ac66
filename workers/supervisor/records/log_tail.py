"""Moves what ranks print from their files into a spool, and goes on where a dead supervisor stopped."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import structlog

from trainyard.contract.orders import Order
from trainyard.contract.records import STREAMS, BadRecord, Begin, Logs, LossCounts, Lost, Stream
from trainyard.spooling.frames import BadFrame
from trainyard.spooling.ledger import Ledger
from trainyard.spooling.plain_files import open_plain
from trainyard.spooling.writer import SpoolLimit, SpoolWriter, read_frames
from workers.attempt.folder import AttemptFolder
from workers.supervisor.records.lines import split_lines
from workers.supervisor.records.rule_watch import RuleWatch

log = structlog.get_logger(__name__)

READ_BYTES = 256 * 1024
FRAME_BYTES = 255 * 1024  # of lines, so that a frame stays below 256 KiB
ROOM_WAIT_S = 60.0
STATE_EVERY_S = 5.0  # so often a progress bar that does not end its line is shown as it is


class LogTail:
    """One stream of one rank and how far it was read."""

    def __init__(self, path: Path, rank: int, stream: Stream, offset: int = 0, rules: RuleWatch | None = None) -> None:
        self.rank = rank
        self.stream = stream
        self._path = path
        self._rules = rules
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
            timed = [(at, line) for line in lines]
            spool.append(Logs(self.rank, self.stream, timed, offset))
            if self._rules is not None:
                self._rules.read(lines, rank=self.rank, stream=self.stream, at=at)
        if taken:
            self._was_bar = takes_state and not data[:taken].endswith(b"\n")
        self._offset = offset
        return bool(lines)

    def _is_due(self, data: bytes, now: float) -> bool:
        """Whether a progress bar has gone on for so long that its state is to be seen."""
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
                ends = [part.count(b"\n") or 1 for part in iter(lambda: file.read(READ_BYTES), b"")]
        except FileNotFoundError:
            return 0
        return sum(ends)


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
