"""Memory that a rank holds."""

from __future__ import annotations

import math
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch

STATM = Path("/proc/self/statm")
STATUS = Path("/proc/self/status")
ROLLUP = Path("/proc/self/smaps_rollup")
CLEAR_REFS = Path("/proc/self/clear_refs")
LOOK_PERIOD_S = 0.1  # a look takes 0.1 ms
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


class _Mark:
    """The most that this process has held beside pages of files, of looks at the system's own mark, which has them in
    it. The system keeps one mark a process: proc(5), VmHWM."""

    most_bytes = 0
    looked_at = -math.inf
    of_files = 0.0

    @classmethod
    def look(cls) -> None:
        """Take what was most since the last look less the pages of files, and begin anew. Were some dropped meanwhile,
        those of then count: one look may so see too little, but no other sees too much, and the most of all counts."""
        sizes = kibibytes(STATUS)
        of_files = max(sizes["RssFile"], cls.of_files)
        cls.most_bytes = max(cls.most_bytes, int(sizes["VmHWM"] - of_files) * 1024)
        cls.looked_at, cls.of_files = time.monotonic(), sizes["RssFile"]
        with suppress(OSError):
            CLEAR_REFS.write_text("5")  # VmHWM becomes what is held now


def restart_peak(device: torch.device) -> None:
    """Let ``peak_bytes`` be of what is held from now on, where the system can."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError, KeyError):
        _Mark.look()
    _Mark.most_bytes = 0


def look_for_peak(device: torch.device) -> None:
    """Record the peak now and then, so that ``peak_bytes`` can leave out pages of files, which come and go. Called
    between steps; does nothing shortly after the last time."""
    if device.type == "cpu" and time.monotonic() - _Mark.looked_at > LOOK_PERIOD_S:
        with suppress(OSError, KeyError):
            _Mark.look()


def peak_bytes(device: torch.device) -> int:
    """Return the most that this rank has held: of the CUDA allocator, or of this process's own memory, where what it
    shares with the process it was forked from counts for its part (PSS).

    Pages of files do not count, be they libraries or data: how many are mapped is the page cache's matter, and the
    system drops them when it likes.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        now, parts = kibibytes(STATUS), kibibytes(ROLLUP)
        of_others = now["RssAnon"] + now["RssShmem"] - (parts["Pss"] - parts["Pss_File"])
        return own_peak_bytes() - int(of_others * 1024)
    except (OSError, KeyError):
        return memory_bytes(device)


def own_peak_bytes() -> int:
    """Return the most that this process has held as ``own_bytes`` counts. Raises OSError or KeyError where the system
    does not report it."""
    _Mark.look()
    return _Mark.most_bytes


def own_bytes() -> int:
    """Return what this process holds beside pages of files; what it shares counts whole. Raises OSError or KeyError
    where the system does not report it."""
    sizes = kibibytes(STATUS)
    return int((sizes["RssAnon"] + sizes["RssShmem"]) * 1024)


def kibibytes(path: Path) -> dict[str, float]:
    """Return the system's figures of this process's memory in ``path``, by name: proc(5), status and smaps_rollup.
    Raises OSError where it does not."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            found[name] = float(rest.split()[0])
    return found
