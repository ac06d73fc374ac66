"""All operations over all sizes, a few exchanges at a time: how quick they are changes from second to second."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

from workers.training.communication.exchanges import make_exchange
from workers.training.communication.timing import Fit, Points, fit, timed
from workers.training.group.agreement import gather_all

NUM_SWEEPS = 15
REPORT_PERIOD_S = 5.0


class Sweeps:
    """Call it between whatever else takes a while, and ``points`` or ``lines`` at the end. All are collectives, the
    last two at their first call only. ``report`` gets a line every few seconds about how far it is."""

    def __init__(
        self,
        operations: Sequence[str],
        sizes: Sequence[int],
        repeats: int,
        device: torch.device,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._operations, self._sizes, self._device = operations, sizes, device
        count = self._count = min(NUM_SWEEPS, repeats)
        self._left = [repeats * (at + 1) // count - repeats * at // count for at in range(count)]
        self._gathered: list[list[list[float]]] = []  # of each rank, what it measured
        self._report, self._reported_at = report, time.monotonic()
        self._own: dict[tuple[str, int], list[float]] = {(one, size): [] for one in operations for size in sizes}

    def __call__(self) -> None:
        """Exchange everything so many times. After the last sweep it does nothing."""
        if not self._left:
            return
        repeats = self._left.pop()
        for (operation, size), seconds in self._own.items():
            seconds += timed(make_exchange(operation, size, self._device), repeats, self._device)
        if self._report and self._own and time.monotonic() - self._reported_at >= REPORT_PERIOD_S:
            self._reported_at = time.monotonic()
            self._report(f"{self._count - len(self._left)} of {self._count} sweeps over all sizes")

    def points(self) -> dict[str, Points]:
        """Return bytes and seconds by operation, the same on every rank: medians over all repeats, each of which takes
        as long as the slowest rank's."""
        while self._left:
            self()
        if not self._gathered:
            self._gathered = gather_all(list(self._own.values()))
        found: dict[str, Points] = {operation: [] for operation in self._operations}
        for (operation, size), ranks in zip(self._own, zip(*self._gathered, strict=True), strict=True):
            found[operation].append((size, statistics.median(max(times) for times in zip(*ranks, strict=True))))
        return found

    def lines(self) -> dict[str, Fit]:
        """Return the line of each operation through its points."""
        return {operation: fit(points) for operation, points in self.points().items()}
