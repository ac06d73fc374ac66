"""Processes that wait to become ranks.

They are forked before the supervisor has read the node's key: what a rank's script finds in its own memory, or in that
of the warm process, holds nothing of the node's.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import traceback
from typing import NoReturn

from workers.machine.processes import die_with_parent, name_process, open_descriptors
from workers.progress import marker
from workers.rank_process.run import RankPlan, become_rank


class WaitingProcesses:
    def __init__(self, num_ranks: int, *, has_pipes: bool = False) -> None:
        """``has_pipes``: what the ranks print comes by ``pipes``, of stdout and stderr, in the order of the ranks."""
        memories = [mmap.mmap(-1, marker.SIZE) for _ in range(num_ranks)]
        self.pipes: list[tuple[int, int]] = []
        self._waiting = [self._fork(memory, has_pipes=has_pipes) for memory in memories]
        self.markers = [marker.Marker(memory) for memory in memories]  # in the order of the ranks

    def start(self, plan: RankPlan) -> int:
        """Let the next process become the rank, and return its pid. A process that was killed meanwhile is reaped like
        any other."""
        pid, writer = self._waiting.pop(0)
        left = memoryview(plan.to_bytes())
        with contextlib.suppress(BrokenPipeError):
            while left:
                left = left[os.write(writer, left) :]
        os.close(writer)
        return pid

    def close(self) -> None:
        """End the processes that still wait."""
        for _, writer in self._waiting:
            os.close(writer)
        self._waiting.clear()

    def _fork(self, memory: mmap.mmap, *, has_pipes: bool) -> tuple[int, int]:
        parent = os.getpid()
        reader, writer = os.pipe()
        pairs = [os.pipe(), os.pipe()] if has_pipes else []
        output = tuple(write for _, write in pairs)
        pid = os.fork()
        if pid == 0:
            _wait(reader, parent, memory, output)
        os.close(reader)
        for descriptor in output:
            os.close(descriptor)
        if has_pipes:
            self.pipes.append((pairs[0][0], pairs[1][0]))
        return pid, writer


def _wait(reader: int, parent: int, memory: mmap.mmap, output: tuple[int, ...]) -> NoReturn:
    try:
        marker.share(memory)
        die_with_parent(signal.SIGKILL, parent)
        name_process("ty-waiting")
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        for descriptor in set(open_descriptors()) - {reader, *output}:
            with contextlib.suppress(OSError):  # the one that listed the folder is closed already
                os.close(descriptor)
        data = b"".join(iter(lambda: os.read(reader, 1 << 16), b""))
        plan = RankPlan.from_bytes(data) if data else None
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    if plan is None:
        os._exit(0)
    become_rank(plan, parent, output)
