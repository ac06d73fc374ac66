"""Stacks of a rank that says nothing of itself: no process group, so no sampler, or a call that holds Python's lock.

Python's fault handler writes them from a signal handler in C, into the rank's stderr, where its log shows them too.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from trainyard.contract.reports import MAX_STACK_CHARACTERS
from trainyard.spooling.plain_files import open_plain
from workers.attempt.folder import AttemptFolder
from workers.rank_process.run import STACK_SIGNAL
from workers.supervisor.ranks.state import RankState

CALLS = re.compile(r'File "([^"\n]+)", line (\d+)')
BEGINNING = re.compile(r"^(Current thread|Thread) .*\(most recent call first\):", re.M)


class Stacks:
    """Asks each rank once, until it makes progress again."""

    def __init__(self, folder: AttemptFolder) -> None:
        self._folder = folder
        self._asked: dict[int, int] = {}  # bytes of its stderr by then

    def forget(self, rank: int) -> None:
        self._asked.pop(rank, None)

    def was_asked(self, rank: int) -> bool:
        return rank in self._asked

    def of(self, rank: RankState) -> str:
        """Return the rank's stacks, empty until it has written them."""
        path = self._folder.stream_path(rank.rank, "stderr")
        if rank.rank not in self._asked:
            self._asked[rank.rank] = path.lstat().st_size if path.exists() else 0
            if handles(rank.main_pid, STACK_SIGNAL):  # the signal ends any other process
                os.kill(rank.main_pid, STACK_SIGNAL)
            return ""
        try:
            with open_plain(path) as file:
                file.seek(self._asked[rank.rank])
                text = file.read(2 * MAX_STACK_CHARACTERS).decode("utf-8", "replace")
        except OSError:
            return ""
        found = BEGINNING.search(text)
        return text[found.start() :][:MAX_STACK_CHARACTERS] if found else ""

    def line_in(self, stack: str) -> str:
        """Return the innermost line of the user's own code: "train.py line 84"."""
        for file, line in CALLS.findall(stack):
            if Path(file).is_relative_to(self._folder.code):
                return f"{Path(file).relative_to(self._folder.code).as_posix()} line {line}"
        return ""


def handles(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (int(number) - 1) & 1)
