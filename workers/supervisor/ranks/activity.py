"""Whether ranks do anything, seen from outside: what they print, and the processor time that they use.

A script that logs no steps looks the same whether it trains or waits for ever in a collective. A rank that waits prints
nothing and computes next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from workers.attempt.folder import AttemptFolder
from workers.machine.processes import cpu_s, descendants_of
from workers.supervisor.ranks.state import RankState

UPDATE_EVERY_S = 5.0
EXACT_S = 15.0  # how exactly a report says when it was: each change of it is published
BUSY_SHARE = 0.05  # of one core


class Activity:
    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._updated_at = 0.0
        self._printed: dict[int, int] = {}
        self._used_s: dict[int, float] = {}

    def update(self, ranks: Sequence[RankState]) -> bool:
        """Record in the ranks when they last printed and computed. Returns whether that changes the report."""
        now = time.monotonic()
        elapsed_s = now - self._updated_at
        if elapsed_s < UPDATE_EVERY_S:
            return False
        self._updated_at = now
        at = time.time() // EXACT_S * EXACT_S
        before = [(rank.printed_at, rank.computed_at) for rank in ranks]
        for rank in ranks:
            if rank.ended_at is None:
                self._update_rank(rank, at, elapsed_s)
        return before != [(rank.printed_at, rank.computed_at) for rank in ranks]

    def _update_rank(self, rank: RankState, at: float, elapsed_s: float) -> None:
        rank.find_inner(self._folder.pid_path(rank.rank))
        printed = sum(self._size(rank.rank, stream) for stream in ("stdout", "stderr"))
        used_s = sum(map(cpu_s, (rank.main_pid, *descendants_of(rank.main_pid))))
        if rank.printed_at is None or printed != self._printed.get(rank.rank):
            rank.printed_at = at
        if rank.computed_at is None or used_s - self._used_s.get(rank.rank, 0.0) > BUSY_SHARE * elapsed_s:
            rank.computed_at = at
        self._printed[rank.rank], self._used_s[rank.rank] = printed, used_s

    def _size(self, rank: int, stream: str) -> int:
        try:
            return self._folder.stream_path(rank, stream).stat().st_size
        except OSError:
            return 0
