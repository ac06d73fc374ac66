"""Signs of life of ranks, seen from outside: what they print, and what the kernel counts of them.

A script that logs no steps looks the same whether it trains or waits for ever in a collective. A rank that waits prints
nothing, computes next to nothing, and does not wake.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from workers.attempt.folder import AttemptFolder
from workers.machine.processes import PROC, cpu_s, descendants_of
from workers.supervisor.ranks.state import RankState

# Signs that a process and its descendants are at work, by what the kernel counts of their threads.
#
# A share of a core alone does not say so: a script that waits for data or for a service in each step uses a
# thousandth of one. The main thread of a process that waits for ever does not wake at all, or every 5 s as a
# DataLoader does. Other threads wake all the time for nothing (gloo's a hundred times a second), so that only their
# processor time counts, and what is read and written. The figures are in docs/decisions/measures.md.

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
        looked.io_bytes[process] = _sum_of(f"{process}/io", ("rchar", "wchar"))
        for thread in _threads_of(process):
            calls = 0
            if thread == process:
                calls = _sum_of(f"{process}/task/{thread}/status", ("voluntary_ctxt_switches",))
                calls += _sum_of(f"{process}/task/{thread}/io", ("syscr", "syscw"))
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


def _sum_of(file: str, names: tuple[str, ...]) -> int:
    """Return the sum of the lines ``name: number`` of these names in a file of the kernel's; 0 where it is not to be
    read."""
    try:
        lines = (PROC / file).read_text(errors="replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in names)


def _is_poller(pid: int, thread: int) -> bool:
    try:
        return (PROC / str(pid) / "task" / str(thread) / "comm").read_text(errors="replace").startswith(POLLERS)
    except OSError:
        return True  # it has ended


LOOK_EVERY_S = 2.0
EXACT_S = 15.0  # how exactly a report says when it was: each change of it is published


@dataclass
class Seen:
    """Last signs of life of one rank. Times are monotonic."""

    meter: WorkMeter = field(default_factory=WorkMeter)
    printed: int = 0  # bytes
    at: float = 0.0  # when it last did anything
    has_news: bool = False
    ignored_until: float = 0.0


class Activity:
    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._looked_at = 0.0
        self._seen: dict[int, Seen] = {}

    def update(self, ranks: Sequence[RankState]) -> bool:
        """Record in the ranks when they last printed and worked. Returns whether that changes the report."""
        now = time.monotonic()
        elapsed_s = now - self._looked_at
        if elapsed_s < LOOK_EVERY_S:
            return False
        self._looked_at = now
        before = [(rank.printed_at, rank.computed_at) for rank in ranks]
        for rank in ranks:
            if rank.ended_at is None:
                self._look(rank, now, elapsed_s)
        return before != [(rank.printed_at, rank.computed_at) for rank in ranks]

    def take_news(self, rank: int) -> bool:
        """Return whether the rank has done anything since the last call."""
        seen = self._seen.setdefault(rank, Seen())
        seen.has_news, has_news = False, seen.has_news
        return has_news

    def last_at(self, rank: int) -> float:
        """Return when the rank last did anything, 0 before that is known."""
        return self._seen.setdefault(rank, Seen()).at

    def ignore_answer(self, rank: int) -> None:
        """Ignore what the rank does next: it was asked for, and is no sign of life."""
        self._seen.setdefault(rank, Seen()).ignored_until = time.monotonic() + 2 * LOOK_EVERY_S

    def _look(self, rank: RankState, now: float, elapsed_s: float) -> None:
        rank.find_inner(self._folder.pid_path(rank.rank))
        seen = self._seen.setdefault(rank.rank, Seen())
        printed = sum(self._size(rank.rank, stream) for stream in ("stdout", "stderr"))
        has_printed, seen.printed = printed != seen.printed, printed
        has_worked = seen.meter.has_worked(rank.main_pid, elapsed_s)
        if now < seen.ignored_until:
            return
        at = time.time() // EXACT_S * EXACT_S
        if rank.printed_at is None or has_printed:
            rank.printed_at = at
        if has_worked:
            rank.computed_at = at
        if has_printed or has_worked:
            seen.at, seen.has_news = now, True

    def _size(self, rank: int, stream: str) -> int:
        try:
            return self._folder.stream_path(rank, stream).lstat().st_size
        except OSError:
            return 0
