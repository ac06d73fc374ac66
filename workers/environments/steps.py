"""Interface between a kind of build and whoever runs its steps: the builder, or a test that only records them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from workers.environments.documents import BuildProgress

_COLLECTING = re.compile(r"Collecting \S")
_DOWNLOADING = re.compile(r"(?:Downloading|Building) (\S+)")


class BuildFailed(Exception):
    """An installer failed. Its own lines, printed before, say why."""


class Steps(ABC):
    work: Path  # a folder for this build alone
    code: Path  # where programs run
    done: int = 0  # packages that are there
    total: int = 0

    @abstractmethod
    def run(self, words: Sequence[str], variables: dict[str, str], text: str = "") -> str:
        """Run a program and return what it printed. Raises BuildFailed."""

    @abstractmethod
    def report(self, progress: BuildProgress) -> None: ...

    def phase(self, words: str) -> None:
        self.report(BuildProgress(phase=words))

    def count(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self.report(BuildProgress(done=done, total=total))

    def take_line(self, line: str) -> None:
        """Report what a line of an installer shows."""
        line = line.strip()
        if _COLLECTING.match(line):
            self.done += 1
            self.phase(f"{self.done} packages found")
        elif not self.total and (found := _DOWNLOADING.match(line)):
            self.phase(f"fetching {found[1]}")
