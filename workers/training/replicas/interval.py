"""Interval, in steps, between copies of a state into memory."""

import math
import statistics
import time
from collections.abc import Callable

SHARE = 0.01  # of the time of a step that ``auto`` may cost
# With auto, states are taken behind these steps of an attempt; what the last of them cost decides. The first ones also
# make room, which later ones use again.
PROBES = (10, 20)
DECIDED_AFTER = 30
LARGEST = 1_000_000
UNKNOWN = 100  # where no state could be taken: another try now and then


class Interval:
    """``given`` is what the spec says: a number, or ``auto``. The same on every rank, once they have agreed."""

    def __init__(self, given: int | str, between_checkpoints: int, agree: Callable[[int], int]) -> None:
        self._agree, self._between_checkpoints = agree, between_checkpoints
        self.every = given if isinstance(given, int) else None  # None: not decided yet
        self._num_steps = 0  # of this attempt
        self._left_at: float | None = None
        self._step_times: list[float] = []

    def entered(self) -> None:
        """Count a step that has ended, and measure it while that matters."""
        self._num_steps += 1
        if self.every is None and self._left_at is not None:
            self._step_times.append(time.perf_counter() - self._left_at)

    def left(self) -> None:
        if self.every is None:
            self._left_at = time.perf_counter()

    def is_due(self, step: int) -> bool:
        return self._num_steps in PROBES if self.every is None else step % self.every == 0

    @property
    def is_deciding(self) -> bool:
        """Return whether all ranks agree behind this step: a collective."""
        return self.every is None and self._num_steps == DECIDED_AFTER

    def decide(self, cost_s: float | None) -> None:
        """Take the longest of all ranks' intervals. ``cost_s`` is what one state cost this rank, None: not known."""
        least = self._agree(least_interval(cost_s, statistics.median(self._step_times)))
        self.every = aligned(least, self._between_checkpoints)
        self._step_times = []


def least_interval(cost_s: float | None, step_s: float) -> int:
    """Return how many steps one state must serve so that it costs at most SHARE of their time.

    ``cost_s`` is None where no state could be taken.
    """
    return UNKNOWN if cost_s is None else min(LARGEST, max(1, math.ceil(cost_s / (SHARE * max(step_s, 1e-6)))))


def aligned(least: int, between_checkpoints: int) -> int:
    """Return the next interval from ``least`` on that meets the steps of checkpoints, so that there is no checkpoint
    on the disk that is newer than what is in memory; beyond their interval, a multiple of it."""
    if least >= between_checkpoints:
        return math.ceil(least / between_checkpoints) * between_checkpoints
    return next(every for every in range(least, between_checkpoints + 1) if between_checkpoints % every == 0)
