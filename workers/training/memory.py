"""How much memory a rank holds."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

STATM = Path("/proc/self/statm")
STATUS = Path("/proc/self/status")
ROLLUP = Path("/proc/self/smaps_rollup")
CLEAR_REFS = Path("/proc/self/clear_refs")
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


def restart_peak(device: torch.device) -> None:
    """Let ``peak_bytes`` be of what is held from now on, where the system can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        CLEAR_REFS.write_text("5")  # VmHWM becomes what is held now: proc(5)


def peak_bytes(device: torch.device) -> int:
    """Return the most that this rank has held: of the CUDA allocator, or of this process's own memory, where what it
    shares with the process it was forked from counts for its part (PSS).

    Pages of files do not count, be they libraries or data: how many are mapped is the page cache's matter, and the
    system drops them when memory is short.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        peak = next(int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        sizes = rollup()
        own = sizes["Pss"] - sizes["Pss_File"]
        return int(peak - (sizes["Rss"] - own)) * 1024
    except (OSError, KeyError, StopIteration):
        return memory_bytes(device)


def rollup() -> dict[str, float]:
    """Return what the system tells of this process's pages, in KiB by name: proc(5), smaps_rollup. Raises OSError
    where it does not."""
    found = {}
    for line in ROLLUP.read_text().splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            found[name] = float(rest.split()[0])
    return found
