"""The heap of a rank that trains on a CPU: what lies free in it is given back before it grows without end.

glibc, to 2.37, cannot give a freed piece of aligned memory to the next request of the same size, and torch aligns all.
Where large tensors of other lives lie between activations, as the weights do that shards gather and drop, every step
leaves a few holes more: FSDP2's ranks were at 1.4 and 1.5 times their first steps after 80. Giving free pages
back costs the next step their faults, so it is done only when the heap has grown, and in the same steps on all ranks.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

import torch

from workers.training.measuring.memory import own_bytes

EVERY_STEPS = 5
FIRST_STEPS = 2  # after which a training has what it needs
GROWTH = 1.05


class Heap:
    """Call ``after_step`` once a step. Without shards a heap does not grow, and is left alone."""

    def __init__(self, device: torch.device, *, has_shards: bool) -> None:
        self._is_watched = has_shards and device.type == "cpu" and sys.platform == "linux"
        self._steps = 0
        self._usual = 0

    def after_step(self) -> None:
        """Give back what is free, where more is held than by the first steps."""
        self._steps += 1
        if not self._is_watched or (self._steps > FIRST_STEPS and self._steps % EVERY_STEPS):
            return
        held = own_bytes()
        if self._steps <= FIRST_STEPS:
            self._usual = max(self._usual, held)
        elif held > GROWTH * self._usual:
            give_back()


def give_back() -> None:
    """Give the system the pages of the heap that hold nothing. Another C library than GNU's keeps what it keeps."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
