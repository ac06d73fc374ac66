"""Processes that our children leave behind when they die: they become ours, so that they can be reaped and, in the end,
ended."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Adopt what descendants leave behind: from now on it becomes our child, not the machine's first process's."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Return the processes whose parent we are, dead ones that nobody has reaped among them."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread ended meanwhile
            found += [int(word) for word in path.read_text().split()]
    return found


def reap(pids: Collection[int]) -> None:
    """Take leave of those of ``pids`` that are dead."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def end_all(timeout_s: float = 1.0) -> None:
    """Kill every child and grandchild that is left."""
    deadline = time.monotonic() + timeout_s
    while (left := children()) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap(left)
        time.sleep(0.02)
