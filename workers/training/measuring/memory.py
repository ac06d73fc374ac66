"""Memory that a rank holds: how much, its peak and its limit, and what of its heap is given back."""

import ctypes
import gc
import math
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
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
        """Take the peak since the last look, less the pages of files, and begin anew. Pages dropped meanwhile count as
        held: one look may then see too little, but none sees too much, and the greatest of all looks counts."""
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
    with suppress(OSError, KeyError):
        now, parts = kibibytes(STATUS), kibibytes(ROLLUP)
        of_others = now["RssAnon"] + now["RssShmem"] - (parts["Pss"] - parts["Pss_File"])
        return own_peak_bytes() - int(of_others * 1024)
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


# The heap of a rank that trains on a CPU: what lies free in it is given back before it grows without end.
#
# glibc, to 2.37, cannot give a freed piece of aligned memory to the next request of the same size, and torch aligns
# all. Where large tensors of other lives lie between activations, as the weights do that shards gather and drop,
# every step leaves a few holes more: FSDP2's ranks were at 1.4 and 1.5 times their first steps after 80. Giving free
# pages back costs the next step their faults, so it is done only when the heap has grown, and in the same steps on
# all ranks.

EVERY_STEPS = 5
FIRST_STEPS = 2  # after which a training has what it needs
GROWTH = 1.05


class Heap:
    """Call ``after_step`` once a step. Without shards a heap does not grow, and is left alone."""

    def __init__(self, device: torch.device, *, has_shards: bool) -> None:
        self._is_watched = has_shards and device.type == "cpu" and sys.platform == "linux"
        self._steps = self._usual = 0

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


# Parts of a rank's memory: its own, and what it shares with the process it was forked from and with neighbours.


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


# Limit of a rank's memory, and its peak.

CPU_SHARE = 0.7  # of what is available; the rest is for page cache, checkpoints in memory and everybody else
GPU_SHARE = 0.9  # of what is free; the rest is for what the allocator cannot fill
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def share_of_memory(device: torch.device, num_ranks_here: int) -> int:
    """Return the bytes that this rank may take beside what it holds, one of ``num_ranks_here`` on this node that ask
    at the same time. A GPU is one rank's own."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(GPU_SHARE * (free + unused))
    available = min([psutil.virtual_memory().available, *cgroup_bytes(OWN_CGROUPS.read_text(), CGROUPS)])
    return int(CPU_SHARE * available / num_ranks_here)


def cgroup_bytes(own: str, root: Path) -> list[int]:
    """Return what each control group above this process leaves, of those that set a limit (versions 1 and 2)."""
    found = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, limit, used = root, "memory.max", "memory.current"
        if controllers:
            base, limit, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        folder = base / path.lstrip("/")
        for place in (folder, *folder.parents):
            if not place.is_relative_to(base):
                break
            if (left := _left(place / limit, place / used)) is not None:
                found.append(left)
    return found


def _left(limit: Path, used: Path) -> int | None:
    with suppress(OSError):  # a group without this controller, or one that a container does not see
        most = limit.read_text().strip()
        return None if most == "max" else max(0, int(most) - int(used.read_text()))
    return None


class PeakMemory:
    """Measures the most that this rank has held since ``restart``, over what it held when this was made."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = self._held()

    def restart(self) -> None:
        restart_peak(self._device)

    def resting_bytes(self) -> int:
        """Return what is held now, over what was held before."""
        return self._held() - self._before

    def peak_bytes(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_reserved(self._device) - self._before
        return own_peak_bytes() - self._before

    def _held(self) -> int:
        if self._device.type == "cuda":
            return memory_bytes(self._device)
        try:
            return own_bytes()
        except (OSError, KeyError):
            raise ValueError(
                "train.find_batch_size needs RssAnon in /proc/self/status, which this system does not have"
            ) from None
