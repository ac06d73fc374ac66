"""Control groups of version 2: what all ranks of an attempt may take together of a node's memory, cores and processes.

A group may have limits for groups below it only where it was given away: to the node worker's service (systemd's
``Delegate=yes`` with ``DelegateSubgroup=node``), or to whoever set TRAINYARD_CGROUP. Version 1 is not used.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from trainyard.formats.words import listed

SETTING = "TRAINYARD_CGROUP"
OFF = "off"
CONTROLLERS = ("cpu", "memory", "pids")
PREFIX = "trainyard-"
PERIOD_US = 100_000  # in which a group may use its share of the cores
RESERVE, LEAST_RESERVE_BYTES = 0.05, 256 << 20  # of the memory, which ranks leave to the machine
MARKS = ("trusted.delegate", "user.delegate")  # systemd's, on a group that it has given away
PROC = Path("/proc/self")


class CgroupLimits(NamedTuple):
    """Limits of all ranks of an attempt together, on this node. 0: no limit."""

    memory_bytes: int = 0
    cpus: float = 0.0
    processes: int = 0
    weight: int = 100  # against other attempts, where cores are short


class MemoryEvents(NamedTuple):
    """Number of times that a group's limit of memory was reached with nothing left to free, and of processes that were
    killed."""

    oom: int = 0
    oom_kill: int = 0


def find_group(environ: Mapping[str, str], proc: Path = PROC) -> tuple[str, str]:
    """Return the folder of the group below which attempts get theirs; else an empty one, and why there is none."""
    given = environ.get(SETTING, "")
    if given.lower() == OFF:
        return "", f"{SETTING}=off"
    problem = ""
    for folder in [Path(given)] if given else _candidates(proc):
        problem = _problem_of(folder)
        if not problem:
            for left in folder.glob(f"{PREFIX}*"):  # of killed supervisors; the kernel keeps those with processes
                remove(left)
            return os.fspath(folder), ""
    return "", problem or "this machine mounts no control groups of version 2"


def make(parent: Path, attempt: str, limits: CgroupLimits) -> Path:
    """Make the attempt's group with its limits. Raises OSError."""
    group = parent / f"{PREFIX}{attempt}"
    group.mkdir(exist_ok=True)
    for name, value in _settings(limits).items():
        with contextlib.suppress(FileNotFoundError):  # a kernel without swap has no limit for it
            (group / name).write_text(value)
    return group


def join(group: Path) -> None:
    """Move this process, and what it will fork, into the group."""
    (group / "cgroup.procs").write_text("0")


def memory_events(group: Path) -> MemoryEvents:
    lines = (line.partition(" ") for line in _lines(group / "memory.events"))
    found = {name: int(value) for name, _, value in lines if value.isdigit()}
    return MemoryEvents(found.get("oom", 0), found.get("oom_kill", 0))


def remove(group: Path) -> None:
    """Remove the group unless processes are left in it."""
    with contextlib.suppress(OSError):
        group.rmdir()


def memory_to_share(parent: Path) -> int:
    """Return how much of the machine's memory, or of the group's, all ranks of one attempt may have."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # "max", or the root group, which has no such file
        total = min(total, int((parent / "memory.max").read_text()))
    return total - max(int(total * RESERVE), LEAST_RESERVE_BYTES)


def _settings(limits: CgroupLimits) -> dict[str, str]:
    cores = f"{max(1_000, int(limits.cpus * PERIOD_US))}" if limits.cpus else "max"
    return {
        "memory.max": str(limits.memory_bytes or "max"),
        "memory.swap.max": "0" if limits.memory_bytes else "max",
        "pids.max": str(limits.processes or "max"),
        "cpu.max": f"{cores} {PERIOD_US}",
        "cpu.weight": str(min(10_000, limits.weight)),
    }


def _candidates(proc: Path) -> Iterator[Path]:
    """Yield the group above our own, if it was given away, and our own."""
    own = next((line[3:] for line in _lines(proc / "cgroup") if line.startswith("0::")), "")
    for line in _lines(proc / "mountinfo"):
        front, _, back = line.partition(" - ")
        if not back.startswith("cgroup2 ") or not own:
            continue
        root, point = front.split()[3:5]
        inside = os.path.relpath(own, root) if own.startswith(root) else "."
        group = Path(os.path.normpath(Path(point) / inside))
        if group != Path(point) and _is_given_away(group.parent):
            yield group.parent
        yield group


def _is_given_away(group: Path) -> bool:
    try:
        if os.geteuid() != 0:
            return group.stat().st_uid == os.geteuid()
        return any(mark in os.listxattr(group) for mark in MARKS)
    except OSError:
        return False


def _problem_of(group: Path) -> str:
    """Return why attempts get no groups below this one; empty where they do."""
    try:
        available = (group / "cgroup.controllers").read_text().split()
    except OSError:
        return f"{group} is no control group of version 2"
    if missing := [name for name in CONTROLLERS if name not in available]:
        return f"the control group {group} has no {listed(missing)}, which version 1 or a parent group keeps"
    try:
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
        probe = group / f"{PREFIX}probe-{os.getpid()}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        if error.errno == errno.EBUSY:
            return f"the control group {group} holds processes itself: give the node one of its own ({SETTING})"
        return f"the control group {group} may not be changed: {error.strerror}"
    return ""


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


# Number of processes that the kernel has killed for want of memory: proof of why one of ours was killed. Linux.

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
MACHINE = Path("/proc/vmstat")


def count_memory_kills() -> int:
    """Return the count of this process' cgroup, or where it has none that of the machine; 0 where neither is known.

    The counters only grow. The kernel counts a process in the cgroup that it belonged to, whatever limit was reached.
    """
    for path in (*_counters(), MACHINE):
        for line in _lines(path):
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.strip().isdigit():
                return int(value)
    return 0


def _counters() -> Iterator[Path]:
    """Yield where the counter of the own cgroup may be: version 2, then 1, by its path and as a container sees it."""
    lines = [line.split(":", 2) for line in _lines(OWN_CGROUPS)]
    for _, controllers, path in lines:
        if not controllers:
            yield from (folder / "memory.events" for folder in (CGROUPS / path.lstrip("/"), CGROUPS))
    for _, controllers, path in lines:
        if "memory" in controllers.split(","):
            base = CGROUPS / "memory"
            yield from (folder / "memory.oom_control" for folder in (base / path.lstrip("/"), base))
