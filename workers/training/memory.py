"""How much memory a rank holds."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import torch

STATM = Path("/proc/self/statm")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def memory_bytes(device: torch.device) -> int:
    """Return what the CUDA allocator has given out, or this process's resident memory where it trains on a CPU."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        return int(STATM.read_bytes().split()[1]) * PAGE_BYTES
    except FileNotFoundError:  # no /proc outside Linux: the peak is the nearest there is, in bytes on macOS only
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
