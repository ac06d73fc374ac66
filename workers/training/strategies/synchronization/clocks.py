"""Bounded staleness: how many steps each worker has done, and which worker has to wait.

Source: Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server", section 3.
No worker begins a step while it has done more than ``max_staleness`` steps more than the slowest worker that lives.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable


class Clocks:
    """The last step that each living worker has done. Any thread may call anything."""

    def __init__(self, ranks: Iterable[int], *, done: int, max_staleness: int) -> None:
        self.max_staleness = max_staleness
        self.is_over = False
        self._changed = threading.Condition()
        self._done = dict.fromkeys(ranks, done)
        self._losses: dict[int, dict[int, float]] = {}  # by step and rank, of steps that not all have done

    @property
    def living(self) -> list[int]:
        with self._changed:
            return sorted(self._done)

    def advance(self, rank: int, step: int, loss: float) -> None:
        """Record that ``rank`` has done ``step``, with this mean loss over its rows."""
        with self._changed:
            self._done[rank] = step
            self._losses.setdefault(step, {})[rank] = loss
            self._changed.notify_all()

    def remove(self, rank: int) -> None:
        """Remove ``rank``: no worker waits for it from now on."""
        with self._changed:
            self._done.pop(rank, None)
            self._changed.notify_all()

    def end(self) -> None:
        """End all waiting: the training is over."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def wait(self, rank: int) -> int:
        """Return how many steps ``rank`` is ahead of the slowest, once it may begin another."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or self._lead(rank) <= self.max_staleness)
            return self._lead(rank)

    def take_losses(self) -> dict[int, float]:
        """Return the mean loss of the steps that all living workers have done, each step once. Losses that a worker
        sent before its death count."""
        with self._changed:
            slowest = min(self._done.values())
            ready = sorted(step for step in self._losses if step <= slowest)
            finished = {step: self._losses.pop(step).values() for step in ready}
            return {step: sum(losses) / len(losses) for step, losses in finished.items()}

    def _lead(self, rank: int) -> int:
        return self._done[rank] - min(self._done.values())
