"""What was committed goes to the browsers at most ten times a second per run: batches in between are put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from runs import broadcast
from runs.ingest.commit import Committed
from runs.metrics.delta import delta
from runs.metrics.store import Lines, Piece

EVERY_S = 0.1
EVERY_REFETCH_S = 1.0  # who gets more than can be sent reads it back, and not ten times a second
EVERY_OVERVIEW_S = 2.0
KEEP_POINTS = 50_000  # more than this is never sent, so it need not be held


@dataclass
class _Waiting:
    start: int
    cursor: int
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    lines: list[Lines] = field(default_factory=list)
    num_points: int = 0


class Push:
    """Collects committed batches and sends them when their run is due. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._due_at: dict[str, float] = {}
        self._overview_due_at: dict[str, float] = {}

    def add(self, committed: Committed) -> None:
        if committed.cursor == committed.start:
            return
        waiting = self._waiting.setdefault(committed.run_id, _Waiting(committed.start, committed.cursor))
        if waiting.cursor not in (committed.start, committed.cursor):  # REST committed in between and sent its own
            waiting = self._waiting[committed.run_id] = _Waiting(committed.start, committed.cursor)
        waiting.cursor = committed.cursor
        if waiting.num_points <= KEEP_POINTS:
            waiting.pieces += [(committed.attempt, piece) for piece in committed.pieces]
            waiting.lines += committed.lines
        waiting.num_points += sum(piece.columns.size for piece in committed.pieces)

    def flush(self, now: float, *, everything: bool = False) -> None:
        """Send what is due at ``now``."""
        for run_id in list(self._waiting):
            if everything or now >= self._due_at.get(run_id, 0.0):
                self._send(run_id, self._waiting.pop(run_id), now)
        if not self._waiting and len(self._due_at) > 1000:
            self._due_at.clear()
            self._overview_due_at.clear()

    def wait_s(self, now: float, at_most: float) -> float:
        """Seconds until the next run is due."""
        return max(0.0, min([at_most, *(self._due_at.get(run_id, 0.0) - now for run_id in self._waiting)]))

    def _send(self, run_id: str, waiting: _Waiting, now: float) -> None:
        change = delta(waiting.start, waiting.cursor, waiting.pieces, waiting.lines)
        self._due_at[run_id] = now + (EVERY_REFETCH_S if change.refetch else EVERY_S)
        broadcast.run_batch(run_id, change.wire())
        if now >= self._overview_due_at.get(run_id, 0.0):
            self._overview_due_at[run_id] = now + EVERY_OVERVIEW_S
            broadcast.run_progressed(run_id)


def push_now(committed: Committed) -> None:
    """Send one batch at once: for a caller that has no loop."""
    if committed.cursor != committed.start:
        pieces = [(committed.attempt, piece) for piece in committed.pieces]
        broadcast.run_batch(committed.run_id, delta(committed.start, committed.cursor, pieces, committed.lines).wire())
