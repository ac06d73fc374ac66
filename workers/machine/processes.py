"""Processes as the kernel knows them: which live, their children and sockets, and signals at a parent's end. Linux;
elsewhere best effort."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from workers.kernel import PR_SET_CHILD_SUBREAPER, PR_SET_NAME, PR_SET_PDEATHSIG, prctl

PF_EXITING = 0x4

STOPPED_AFTER_S = 2.0  # somebody may stop a process for a moment
STOPPED_LIMIT_S = 15.0  # a stopped process goes on by no means of its own
UNSEEN_S = 5.0  # who was kept from looking for longer knows nothing of that time

SIGNALLED = 128  # and the number of a signal: how a shell says that it ended a program

PROC = Path("/proc")


class Process(NamedTuple):
    """A process, distinct from a later one with the same pid: ``start`` is in clock ticks since boot."""

    pid: int
    start: int


class Exit(NamedTuple):
    """End of a process: with a code, or by a signal."""

    code: int | None
    signal: int | None

    @classmethod
    def of(cls, status: int) -> "Exit":
        return cls(None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else cls(os.WEXITSTATUS(status), None)

    def through_shell(self) -> "Exit":
        """Return how the program ended behind one that ends with 128 and the number of its signal."""
        if self.code is not None and self.code - SIGNALLED in signal.valid_signals():
            return Exit(None, self.code - SIGNALLED)
        return self


def die_with_parent(number: signal.Signals, parent: int) -> None:
    """Ask for signal ``number`` when the parent ends. Exits at once when it already did.

    The kernel watches the *thread* that forked, and does not hand the setting on to forked children: each asks itself.
    """
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() not in (parent, 0):  # 0: it is outside of the PID namespace of this process
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (setsid does not help it escape)."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Set the name that ``ps`` and ``top`` show; at most 15 bytes."""
    _prctl(PR_SET_NAME, name.encode()[:15])


def start_of(pid: int) -> int | None:
    """Return when ``pid`` started, in clock ticks since boot; None when there is no such process (or a zombie)."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def cpu_s(pid: int) -> float:
    """Return the processor time that a process has used, 0 where there is none (or no /proc)."""
    fields = _stat(pid)
    return 0.0 if fields is None else (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped the process; a debugger's stop is another one."""
    fields = _stat(pid)
    return fields is not None and fields[0] == "T"


def is_exiting(pid: int) -> bool:
    """Return whether the process is gone, or on its way: the first one of a namespace goes behind all others of it."""
    fields = _stat(pid)
    return fields is None or fields[0] in "ZX" or bool(int(fields[6]) & PF_EXITING)


def identify(pid: int) -> Process:
    return Process(pid, start_of(pid) or 0)


def is_alive(process: Process) -> bool:
    return start_of(process.pid) == process.start


def num_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 1


def open_descriptors() -> list[int]:
    """Return the descriptors from 3 up that this process holds (one of them listed the rest, and is closed)."""
    return [int(path.name) for path in Path("/proc/self/fd").iterdir() if int(path.name) > 2]


def children_of(pid: int) -> list[int]:
    """Return the pids of all threads' children."""
    found: list[int] = []
    for path in (PROC / str(pid) / "task").glob("*/children"):
        try:
            found.extend(int(word) for word in path.read_text().split())
        except OSError:  # the thread ended meanwhile
            continue
    return found


def descendants_of(pid: int) -> list[int]:
    return [one for child in children_of(pid) for one in (child, *descendants_of(child))]


def kill_children(on_exit: Callable[[int, int], None] | None = None) -> None:
    """SIGKILL all descendants and reap them, until none is left; ``on_exit(pid, status)`` is called for each.

    Works from an adopter of orphans: killing a child hands over its children, which the next round finds.
    """
    while True:
        for pid in children_of(os.getpid()):
            send(pid, signal.SIGKILL)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                break
            if on_exit is not None:
                on_exit(pid, status)
        time.sleep(0.002)


def send(pid: int, number: signal.Signals) -> bool:
    """Signal ``pid``; False when it is gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def with_environment(**wanted: str) -> list[Process]:
    """Return the processes that were exec'd with all of these variables (a forked one shows its ancestor's)."""
    marks = [f"{name}={value}".encode() for name, value in wanted.items()]
    found: list[Process] = []
    for path in PROC.glob("[0-9]*"):
        try:
            variables = (path / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or somebody else's
            continue
        start = start_of(int(path.name))
        if start is not None and all(mark in variables for mark in marks):
            found.append(Process(int(path.name), start))
    return found


def _stat(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` behind the name: state, parent, …"""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def _prctl(option: int, value: object) -> None:
    if sys.platform == "linux":
        prctl(option, value)


def tcp_sockets(net: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the table (tcp or tcp6) and the words of each socket of a network. ``net``: its ``/proc/PID/net``."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (net / table).read_text().splitlines()[1:]:
                yield table, line.split()


def socket_inodes(folder: Path) -> set[str]:
    """Return the inodes of the sockets that a process holds. ``folder``: its ``/proc/PID/fd``."""
    found = set()
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):  # closed meanwhile
                if (target := str(Path(entry.path).readlink())).startswith("socket:["):
                    found.add(target[8:-1])
    return found
