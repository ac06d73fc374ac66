"""Signs that a process and its descendants are at work, by what the kernel counts of their threads.

A share of a core alone does not say so: a script that waits for data or for a service in each step uses a thousandth of
one. The main thread of a process that waits for ever does not wake at all, or every 5 s as a DataLoader does. Other
threads wake all the time for nothing (gloo's a hundred times a second), so that only their processor time counts, and
what is read and written. The figures are in docs/decisions/measures.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from workers.machine.processes import PROC, cpu_s, descendants_of

MAIN_SHARE, OTHER_SHARE, ALL_SHARE = 0.0005, 0.01, 0.05  # of one core
MAIN_CALLS_PER_S = 0.75  # times that a main thread waits, and calls to read or write
BYTES_PER_S = 256 * 1024  # read and written by one process; a cold rank's sampler writes 16 KiB each second
POLLERS = ("gloo_", "pt_nccl", "pt_tcpstore", "cuda")  # how names of threads begin that work for nobody's step


class Thread(NamedTuple):
    cpu_s: float
    calls: int  # of a main thread


class Looked(NamedTuple):
    threads: dict[tuple[int, int], Thread]  # by process and thread
    io_bytes: dict[int, int]  # by process


class WorkMeter:
    """Of one process with its descendants."""

    def __init__(self) -> None:
        self._before: Looked | None = None

    def has_worked(self, pid: int, elapsed_s: float) -> bool:
        """Return whether they have done anything since the last call, which was ``elapsed_s`` ago. True at the first
        call."""
        before, now = self._before, look(pid)
        self._before = now
        if before is None:
            return True
        used_s = 0.0
        for (process, thread), found in now.threads.items():
            known = before.threads.get((process, thread))
            if known is None and process == thread:
                return True  # a new process
            known = known or Thread(0.0, 0)
            used_s += (own_s := found.cpu_s - known.cpu_s)
            if process == thread:
                share, calls = MAIN_SHARE, found.calls - known.calls
            else:
                share, calls = OTHER_SHARE, 0
            if calls > MAIN_CALLS_PER_S * elapsed_s:
                return True
            if own_s > share * elapsed_s and (process == thread or not _is_poller(process, thread)):
                return True
        moved = (number - before.io_bytes.get(process, 0) for process, number in now.io_bytes.items())
        return used_s > ALL_SHARE * elapsed_s or any(number > BYTES_PER_S * elapsed_s for number in moved)


def look(pid: int) -> Looked:
    looked = Looked({}, {})
    for process in (pid, *descendants_of(pid)):
        looked.io_bytes[process] = _sum_of(PROC / str(process) / "io", ("rchar", "wchar"))
        for thread in _threads_of(process):
            folder = PROC / str(process) / "task" / str(thread)
            calls = 0
            if thread == process:
                calls = _sum_of(folder / "status", ("voluntary_ctxt_switches",))
                calls += _sum_of(folder / "io", ("syscr", "syscw"))
            looked.threads[process, thread] = Thread(_cpu_s(process, thread), calls)
    return looked


def _threads_of(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC / str(pid) / "task")]  # noqa: PTH208  # pathlib is slower
    except OSError:
        return []


def _cpu_s(pid: int, thread: int) -> float:
    """Return the processor time of a thread; of the whole process for its main one, where the kernel counts no less."""
    try:
        return int((PROC / str(pid) / "task" / str(thread) / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return cpu_s(pid) if pid == thread else 0.0


def _sum_of(path: Path, names: tuple[str, ...]) -> int:
    """Return the sum of the lines ``name: number`` of these names; 0 where the file is not to be read."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in names)


def _is_poller(pid: int, thread: int) -> bool:
    try:
        return (PROC / str(pid) / "task" / str(thread) / "comm").read_text(errors="replace").startswith(POLLERS)
    except OSError:
        return True  # it has ended
