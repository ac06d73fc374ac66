"""Shares of the batch that follow the ranks' speed: who computes twice as fast computes twice as many rows.

The ranks of a synchronous step wait for the slowest. Every few steps they exchange how long each has been busy in a
step, and give rows to those that waited. Each computes the same new shares from the same numbers, so nobody decides
for the others. Gradients stay those of the global batch's mean: a rank's mean loss is weighted by its rows.

A rank's speed is the rows that it computes in the time that it is busy, with all that it does beside. Where some of
that does not depend on the rows, a step towards shares by speed overshoots or falls short a little, and the next one
corrects it: the shares at which all are busy for the same time are the only ones that stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import torch
import torch.distributed as dist

from workers.training.assembly import Assembly
from workers.training.measuring.phases import COMMUNICATION
from workers.training.mesh import BatchShare

FIRST_EXCHANGES = (4, 8, 12)  # steps of an attempt: what is far from balanced should not stay so for long
EVERY_STEPS = 10
DAMPING = 0.75  # of the way to the shares that would be right, if what was measured were
LEAST_GAIN = 0.03  # of the longest time that a rank is busy: what gains less is noise


class Balance:
    """Exchanges the ranks' times over ``group`` (None: all ranks), and keeps the share that follows from them."""

    def __init__(self, share: BatchShare, device: torch.device, group: dist.ProcessGroup | None = None) -> None:
        self.share = share
        self._device = device
        self._group = group
        self._num_steps = 0
        self._busy_s: list[float] = []  # of the steps since the last exchange
        self._times: torch.Tensor | None = None
        self._arriving: dist.Work | None = None

    def after_step(self, phases: Mapping[str, float]) -> BatchShare | None:
        """Take note of a step; return this rank's share from the next step on where it changes. Ranks call it at the
        same steps: what one of them sends at one is read by all at the next, when nobody has to wait for it."""
        self._num_steps += 1
        self._busy_s.append(sum(seconds for name, seconds in phases.items() if name != COMMUNICATION))
        changed = self._take_times()
        if changed:
            self._busy_s.clear()  # they were with other shares
        elif self._num_steps in FIRST_EXCHANGES or self._num_steps % EVERY_STEPS == 0:
            self._send_times()
        return self.share if changed else None

    def state(self) -> list[int]:
        """Return the shares to start from, should the training go on."""
        return list(self.share.all_sizes)

    def load(self, sizes: Sequence[int]) -> bool:
        """Start from the shares of an earlier attempt; return whether they are of use: as many ranks, and rows."""
        if len(sizes) != self.share.num_parts or sum(sizes) != sum(self.share.all_sizes):
            return False
        self.share = self.share.resized(sizes)
        return True

    def _send_times(self) -> None:
        self._times = torch.zeros(self.share.num_parts, dtype=torch.float64, device=self._device)
        self._times[self.share.part] = median(self._busy_s)
        self._busy_s.clear()
        # A sum of one number and zeros is exact in any order: every rank reads the same.
        self._arriving = dist.all_reduce(self._times, group=self._group, async_op=True)

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
    assembly.balance = make_balance(assembly.parallel.balance, assembly.share, assembly.device)


def make_balance(name: str, share: BatchShare, device: torch.device) -> Balance | None:
    """Return what ``parallel.balance`` of a spec asks for; None for nothing. Raises ValueError for another word."""
    if name == "speed":
        return Balance(share, device)
    if name != "none":
        raise ValueError(f"parallel.balance is {name!r}; accepted are none, speed")
    return None


def better_sizes(sizes: Sequence[int], busy_s: Sequence[float]) -> tuple[int, ...]:
    """Return how many rows each rank should have that had ``sizes`` and was busy for ``busy_s``; the same where that
    gains less than LEAST_GAIN. Each keeps a row or more, and their sum stays."""
    if min(busy_s) <= 0:
        return tuple(sizes)
    total = sum(sizes)
    speeds = [rows / seconds for rows, seconds in zip(sizes, busy_s, strict=True)]
    wanted = [total * speed / sum(speeds) for speed in speeds]
    damped = [rows + DAMPING * (want - rows) for rows, want in zip(sizes, wanted, strict=True)]
    found = whole_rows(damped, total)
    expected = max(rows / speed for rows, speed in zip(found, speeds, strict=True))
    return found if expected < (1 - LEAST_GAIN) * max(busy_s) else tuple(sizes)


def whole_rows(wanted: Sequence[float], total: int) -> tuple[int, ...]:
    """Return whole numbers near ``wanted``, each 1 or more, whose sum is ``total`` (which is len(wanted) or more):
    what is left over goes to the largest remainders, of equal ones to the first."""
    rows = [max(1, int(want)) for want in wanted]
    while sum(rows) < total:
        neediest = max(range(len(rows)), key=lambda rank: (wanted[rank] - rows[rank], -rank))
        rows[neediest] += 1
    while sum(rows) > total:  # where some were below 1
        richest = max((rank for rank in range(len(rows)) if rows[rank] > 1), key=lambda r: (rows[r] - wanted[r], -r))
        rows[richest] -= 1
    return tuple(rows)
