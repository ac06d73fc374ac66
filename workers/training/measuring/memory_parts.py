"""Parts of a rank's memory: its own, and what it shares with the process it was forked from and with neighbours."""

from __future__ import annotations

import gc
import sys
from typing import NamedTuple

import torch

from workers.training.measuring.heap import give_back
from workers.training.measuring.memory import ROLLUP, kibibytes, memory_bytes


class Held(NamedTuple):
    """``own_bytes`` is the proportional set size less the pages of files: pages of its own, and its part of those that
    it shares. Of those it got from the process that it was forked from there are ``shared_bytes``, which ``sharers``
    have in common."""

    own_bytes: float
    shared_bytes: float
    sharers: float


def held(device: torch.device) -> Held:
    """Return what this process holds. On a GPU it is what the allocator has given out, which nobody shares."""
    if device.type == "cuda" or not ROLLUP.exists():
        return Held(max(1.0, float(memory_bytes(device))), 0.0, 1.0)
    parts = kibibytes(ROLLUP)
    own = parts["Pss"] - parts["Pss_File"]
    shared, proportional = parts["Shared_Dirty"], parts["Pss_Anon"] - parts["Private_Dirty"]
    return Held(1024 * own, 1024 * shared, max(1.0, shared / proportional) if proportional > 0 else 1.0)


def release(device: torch.device) -> None:
    """Give back what is free but still held."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif sys.platform == "linux":
        give_back()
