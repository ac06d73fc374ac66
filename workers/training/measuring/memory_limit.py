"""Limit of a rank's memory, and its peak."""

from __future__ import annotations

from pathlib import Path

import torch

from workers.training.measuring.memory import memory_bytes, own_bytes, own_peak_bytes, restart_peak

CPU_SHARE = 0.7  # of what is available; the rest is for page cache, checkpoints in memory and everybody else
GPU_SHARE = 0.9  # of what is free; the rest is for what the allocator cannot fill
MEMINFO = Path("/proc/meminfo")
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def share_of_memory(device: torch.device, num_ranks_here: int) -> int:
    """Return the bytes that this rank may take beside what it holds, one of ``num_ranks_here`` on this node that ask
    at the same time. A GPU is one rank's own."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(GPU_SHARE * (free + unused))
    available = min([machine_bytes(MEMINFO.read_text()), *cgroup_bytes(OWN_CGROUPS.read_text(), CGROUPS)])
    return int(CPU_SHARE * available / num_ranks_here)


def machine_bytes(meminfo: str) -> int:
    """Return what can be taken without swapping, by the kernel's own estimate."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise ValueError("train.find_batch_size needs MemAvailable in /proc/meminfo, which this system does not have")


def cgroup_bytes(own: str, root: Path) -> list[int]:
    """Return what each control group above this process leaves, of those that set a limit (versions 1 and 2)."""
    found = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, limit, used = (
            (root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            if controllers
            else (root, "memory.max", "memory.current")
        )
        folder = base / path.lstrip("/")
        for place in (folder, *folder.parents):
            if not place.is_relative_to(base):
                break
            left = _left(place / limit, place / used)
            if left is not None:
                found.append(left)
    return found


def _left(limit: Path, used: Path) -> int | None:
    try:
        most = limit.read_text().strip()
        return None if most == "max" else max(0, int(most) - int(used.read_text()))
    except OSError:  # a group without this controller, or one that a container does not see
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
