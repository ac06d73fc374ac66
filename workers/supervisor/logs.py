"""What ranks print: from their files into a spool, and how to go on where a dead supervisor stopped."""

from __future__ import annotations

import time
from pathlib import Path

from trainyard.records import BadFrame
from trainyard.spool import SpoolWriter, read_frames
from workers.attempts import AttemptFolder
from workers.contract import Document
from workers.supervisor.lines import split_lines

READ_BYTES = 256 * 1024


class LogTail:
    """One stream of one rank and how far it was read."""

    def __init__(self, path: Path, rank: int, stream: str, offset: int = 0) -> None:
        self.rank = rank
        self.stream = stream
        self._path = path
        self._offset = offset

    def move(self, spool: SpoolWriter, *, is_final: bool = False) -> bool:
        """Append the next lines to ``spool``; False when there is none. Raises OSError; then they come again.

        The frame carries the offset behind its lines, so that whoever follows us knows where to go on.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(READ_BYTES)
        except FileNotFoundError:  # the rank has not come so far
            return False
        lines, taken = split_lines(data, is_final=is_final)
        if not lines:
            return False
        now, offset = time.time(), self._offset + taken
        timed = [[now, line] for line in lines]
        spool.append({"t": "logs", "rank": self.rank, "stream": self.stream, "lines": timed, "offset": offset})
        self._offset = offset
        return True

    def drain(self, spool: SpoolWriter) -> None:
        """Move everything, an unfinished last line included."""
        while self.move(spool):
            pass
        while self.move(spool, is_final=True):
            pass


def save_last_words(order: Document, folder: AttemptFolder) -> None:
    """Move what the ranks printed and a dead supervisor did not read any more. Nobody else may be at work here."""
    offsets = _offsets(folder.spool)
    tails = []
    for path in sorted(folder.logs.glob("rank-*.std*")):
        rank, stream = int(path.stem.removeprefix("rank-")), path.suffix[1:]
        offset = offsets.get((rank, stream), 0)
        if path.stat().st_size > offset:
            tails.append(LogTail(path, rank, stream, offset))
    if not tails:
        return
    spool = SpoolWriter(folder.spool, begin={"rank": -1, "node": order["node_name"], "role": "node"})
    for tail in tails:
        tail.drain(spool)
    spool.close("lost")


def _offsets(folder: Path) -> dict[tuple[int, str], int]:
    """Return how far each stream was read, as the log frames in the spools say."""
    found: dict[tuple[int, str], int] = {}
    for path in folder.glob("*.spool"):
        offset = 0
        while True:
            try:
                frames, offset = read_frames(path, offset)
            except BadFrame:
                break
            if not frames:
                break
            for frame in frames:
                if frame.kind == "logs" and "offset" in frame.payload:
                    stream = frame.payload["rank"], frame.payload["stream"]
                    found[stream] = max(frame.payload["offset"], found.get(stream, 0))
    return found
