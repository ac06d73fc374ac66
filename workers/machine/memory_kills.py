"""Number of processes that the kernel has killed for want of memory: proof of why one of ours was killed. Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
MACHINE = Path("/proc/vmstat")


def count_memory_kills() -> int:
    """Return the count of this process' cgroup, or where it has none that of the machine; 0 where neither is known.

    The counters only grow. The kernel counts a process in the cgroup that it belonged to, whatever limit was reached.
    """
    for path in (*_counters(), MACHINE):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.strip().isdigit():
                return int(value)
    return 0


def _counters() -> Iterator[Path]:
    """Yield where the counter of the own cgroup may be: version 2, then 1, by its path and as a container sees it."""
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from (folder / "memory.events" for folder in (CGROUPS / path.lstrip("/"), CGROUPS))
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            base = CGROUPS / "memory"
            yield from (folder / "memory.oom_control" for folder in (base / path.lstrip("/"), base))
