"""What the processes of a server take: processor time and memory by name, children included, with those that ended."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping

import psutil

LOOK_S = 1.0


class Usage:
    """Follows the trees of named processes in a thread of its own. ``roots`` may change meanwhile: name -> pids."""

    def __init__(self, roots: Mapping[str, list[int]]) -> None:
        self.roots = dict(roots)
        self.cpu_s: dict[str, float] = {}  # since the last ``reset``
        self._before: dict[tuple[str, int], float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Usage:
        self.look()
        self.reset()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def reset(self) -> None:
        """Count from now on."""
        self.look()
        with self._lock:
            self.cpu_s, self._since = {}, time.monotonic()

    def cores(self) -> dict[str, float]:
        """Return how many cores each name took since the last ``reset``."""
        self.look()
        with self._lock:
            seconds = time.monotonic() - self._since
            return {name: used / seconds for name, used in sorted(self.cpu_s.items())}

    def look(self) -> None:
        """Add what each tree has used since the last look. A new process of a tree counts from its start."""
        with self._lock:
            children = children_by_pid()
            for name, pids in self.roots.items():
                for pid in pids:
                    used = sum(map(_cpu_s, tree(pid, children)))
                    grown = used - self._before.get((name, pid), 0.0)
                    self._before[name, pid] = max(used, self._before.get((name, pid), 0.0))
                    self.cpu_s[name] = self.cpu_s.get(name, 0.0) + max(0.0, grown)

    def memory(self) -> dict[str, float]:
        """Return the PSS of each name in MiB."""
        children = children_by_pid()
        return {
            name: sum(_pss(one) for pid in pids for one in tree(pid, children)) / 2**20
            for name, pids in self.roots.items()
        }

    def _run(self) -> None:
        while not self._over.wait(LOOK_S):
            self.look()


def children_by_pid() -> dict[int, list[psutil.Process]]:
    """Look at all processes once: to ask for the children of each costs as much every time."""
    found: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.setdefault(process.ppid(), []).append(process)
    return found


def tree(pid: int, children: Mapping[int, list[psutil.Process]]) -> Iterator[psutil.Process]:
    """Yield a process and all below it; of this one nothing below it, which has names of its own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        yield psutil.Process(pid)
        for child in children.get(pid, []) if pid != os.getpid() else []:
            yield from tree(child.pid, children)


def _cpu_s(process: psutil.Process) -> float:
    """Its processor time with that of the children that it has seen end."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[: 4 if process.pid != os.getpid() else 2]))
    return 0.0


def _pss(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return int(process.memory_full_info().pss)
    return 0
