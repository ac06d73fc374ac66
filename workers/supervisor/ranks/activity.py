"""Whether ranks do anything, seen from outside: what they print, and what the kernel counts of them.

A script that logs no steps looks the same whether it trains or waits for ever in a collective. A rank that waits prints
nothing, computes next to nothing, and does not wake.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from workers.attempt.folder import AttemptFolder
from workers.machine.work import WorkMeter
from workers.supervisor.ranks.state import RankState

LOOK_EVERY_S = 2.0
EXACT_S = 15.0  # how exactly a report says when it was: each change of it is published


@dataclass
class Seen:
    """Of one rank. Times are monotonic."""

    meter: WorkMeter = field(default_factory=WorkMeter)
    printed: int = 0  # bytes
    at: float = 0.0  # when it last did anything
    has_news: bool = False
    ignored_until: float = 0.0


class Activity:
    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._looked_at = 0.0
        self._seen: dict[int, Seen] = {}

    def update(self, ranks: Sequence[RankState]) -> bool:
        """Record in the ranks when they last printed and worked. Returns whether that changes the report."""
        now = time.monotonic()
        elapsed_s = now - self._looked_at
        if elapsed_s < LOOK_EVERY_S:
            return False
        self._looked_at = now
        before = [(rank.printed_at, rank.computed_at) for rank in ranks]
        for rank in ranks:
            if rank.ended_at is None:
                self._look(rank, now, elapsed_s)
        return before != [(rank.printed_at, rank.computed_at) for rank in ranks]

    def take_news(self, rank: int) -> bool:
        """Whether the rank has done anything since the last call."""
        seen = self._seen.setdefault(rank, Seen())
        seen.has_news, has_news = False, seen.has_news
        return has_news

    def last_at(self, rank: int) -> float:
        """Return when the rank last did anything, 0 before that is known."""
        return self._seen.setdefault(rank, Seen()).at

    def ignore_answer(self, rank: int) -> None:
        """What the rank does next was asked for: it is no sign of life."""
        self._seen.setdefault(rank, Seen()).ignored_until = time.monotonic() + 2 * LOOK_EVERY_S

    def _look(self, rank: RankState, now: float, elapsed_s: float) -> None:
        rank.find_inner(self._folder.pid_path(rank.rank))
        seen = self._seen.setdefault(rank.rank, Seen())
        printed = sum(self._size(rank.rank, stream) for stream in ("stdout", "stderr"))
        has_printed, seen.printed = printed != seen.printed, printed
        has_worked = seen.meter.has_worked(rank.main_pid, elapsed_s)
        if now < seen.ignored_until:
            return
        at = time.time() // EXACT_S * EXACT_S
        if rank.printed_at is None or has_printed:
            rank.printed_at = at
        if has_worked:
            rank.computed_at = at
        if has_printed or has_worked:
            seen.at, seen.has_news = now, True

    def _size(self, rank: int, stream: str) -> int:
        try:
            return self._folder.stream_path(rank, stream).lstat().st_size
        except OSError:
            return 0
