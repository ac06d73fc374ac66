"""Shares of the batch by the ranks' speed: a rank that computes twice as fast gets twice as many rows.

The ranks of a synchronous step wait for the slowest. Every few steps they exchange how long each was busy in a step,
and move rows to the ranks that waited. All ranks compute the same new shares from the same numbers. Gradients stay
those of the global batch's mean: a rank's mean loss is weighted by its rows.

A rank's speed is its rows divided by its busy time. Part of that time may not depend on the rows; then a change
overshoots or falls short a little, and the next one corrects it. Only shares with equal busy times are stable.
"""

from collections.abc import Mapping, Sequence
from statistics import median

import torch
import torch.distributed as dist

from workers.training.assembly import Assembly
from workers.training.measuring.phases import COMMUNICATION
from workers.training.mesh import BatchShare

FIRST_EXCHANGES = (4, 8, 12)  # early steps of an attempt, since the first shares may be far from balanced
EVERY_STEPS = 10
DAMPING = 0.75  # part of the way to the shares that the noisy measurement suggests
LEAST_GAIN = 0.03  # of the longest busy time: a smaller gain is noise


class Balance:
    """Exchanges the ranks' times, and keeps the share that follows from them."""

    def __init__(self, share: BatchShare, device: torch.device) -> None:
        self.share, self._device = share, device
        self._num_steps = 0
        self._busy_s: list[float] = []  # of the steps since the last exchange
        self._times: torch.Tensor | None = None
        self._arriving: dist.Work | None = None

    def after_step(self, phases: Mapping[str, float]) -> BatchShare | None:
        """Record a step, and return this rank's new share where it changes from the next step on. All ranks call it at
        the same steps. Times sent at one step are read at the next, so that no rank waits for them."""
        self._num_steps += 1
        self._busy_s.append(sum(seconds for name, seconds in phases.items() if name != COMMUNICATION))
        changed = self._take_times()
        if changed:
            self._busy_s.clear()  # they were with other shares
        elif self._num_steps in FIRST_EXCHANGES or self._num_steps % EVERY_STEPS == 0:
            self._send_times()
        return self.share if changed else None

    def state(self) -> list[int]:
        return list(self.share.all_sizes)

    def load(self, sizes: Sequence[int]) -> bool:
        """Start from the shares of an earlier attempt; return False if the number of ranks or rows differs."""
        if len(sizes) != self.share.num_parts or sum(sizes) != sum(self.share.all_sizes):
            return False
        self.share = self.share.resized(sizes)
        return True

    def _send_times(self) -> None:
        self._times = torch.zeros(self.share.num_parts, dtype=torch.float64, device=self._device)
        self._times[self.share.part] = median(self._busy_s)
        self._busy_s.clear()
        # A sum of one number and zeros is exact in any order: every rank reads the same.
        self._arriving = dist.all_reduce(self._times, async_op=True)

    def _take_times(self) -> bool:
        if self._arriving is None or self._times is None:
            return False
        self._arriving.wait()
        self._arriving = None
        sizes = better_sizes(self.share.all_sizes, self._times.tolist())
        if sizes == self.share.all_sizes:
            return False
        self.share = self.share.resized(sizes)
        return True


def apply(assembly: Assembly) -> None:
    if assembly.parallel.balance == "speed":
        assembly.balance = Balance(assembly.share, assembly.device)


def better_sizes(sizes: Sequence[int], busy_s: Sequence[float]) -> tuple[int, ...]:
    """Return better numbers of rows for ranks that had ``sizes`` and were busy for ``busy_s``, or ``sizes`` where the
    gain is below LEAST_GAIN. Each rank keeps at least one row, and the sum stays."""
    if min(busy_s) <= 0:
        return tuple(sizes)
    total = sum(sizes)
    speeds = [rows / seconds for rows, seconds in zip(sizes, busy_s, strict=True)]
    wanted = [total * speed / sum(speeds) for speed in speeds]
    found = whole_rows([rows + DAMPING * (want - rows) for rows, want in zip(sizes, wanted, strict=True)], total)
    expected = max(rows / speed for rows, speed in zip(found, speeds, strict=True))
    return found if expected < (1 - LEAST_GAIN) * max(busy_s) else tuple(sizes)


def whole_rows(wanted: Sequence[float], total: int) -> tuple[int, ...]:
    """Return whole numbers near ``wanted``, each at least 1, whose sum is ``total`` (at least len(wanted)). The largest
    remainders are rounded up, of equal ones the first."""
    rows = [max(1, int(want)) for want in wanted]
    while sum(rows) < total:
        neediest = max(range(len(rows)), key=lambda rank: (wanted[rank] - rows[rank], -rank))
        rows[neediest] += 1
    while sum(rows) > total:  # where some were below 1
        richest = max((rank for rank in range(len(rows)) if rows[rank] > 1), key=lambda r: (rows[r] - wanted[r], -r))
        rows[richest] -= 1
    return tuple(rows)
