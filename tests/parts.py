"""`make test`: all tests in parts, two at a time, the longest first. Each part is a pytest of its own, with servers of
its own; what shares the one running Trainyard, and the browser with its event loop, is one part by itself.

Prints what each part says with its name before it, and at the end what failed, the closing line of each and one for
all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from dashboard.up.tether import tethered

ROOT = Path(__file__).resolve().parents[1]
LANES = 2  # most parts wait a good deal for processes of theirs: two keep two cores busy
POSTGRESQL = {"TRAINYARD_TEST_DATABASE": "postgresql"}
# What has to do with the database runs on PostgreSQL too. Every test is in one of the first three parts, but for
# tests/parity and tests/quality, which are `make parity` and `make quality`: minutes of up to eight processes.
PARTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "whole": (["-m", "whole"], {}),
    "others": (["-m", "not whole", "--ignore=tests/runs", "--ignore=tests/parity", "--ignore=tests/quality"], {}),
    "runs": (["-m", "not whole", "tests/runs"], {}),
    "runs on PostgreSQL": (["-m", "not whole", "tests/runs"], POSTGRESQL),
}
WIDTH = max(map(len, PARTS))
CLOSING = re.compile(r"^=*[ ]*((\d+ [a-z]+(, )?)+|no tests ran).* in [\d.]+s")
LOST = re.compile(r"^(FAILED|ERROR) \S")  # pytest's own summary of one test
OUTCOME = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)")


class Part:
    """One pytest process and what it says. Started by the main thread, which its life is tied to."""

    def __init__(self, name: str) -> None:
        words, changes = PARTS[name]
        self.name = name
        self.closing = ""
        self.lost: list[str] = []
        self._process = subprocess.Popen(
            tethered([sys.executable, "-m", "pytest", *words]), cwd=ROOT, env={**os.environ, **changes}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> bool:
        """Wait until it has said all and return whether everything passed."""
        code = self._process.wait()
        self._reader.join()
        self.closing = self.closing or f"== no tests ran in 0.00s: pytest ended with {code} =="
        return code == 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                print(f"{self.name:{WIDTH}} | {line}", end="", flush=True)
                if LOST.match(line):
                    self.lost.append(line.rstrip("\n"))
                if CLOSING.match(line):
                    self.closing = line.rstrip("\n")


def main() -> int:
    began = time.monotonic()
    waiting, running, over, failed = list(PARTS), list[Part](), list[Part](), list[str]()
    while waiting or running:
        while waiting and len(running) < LANES:
            running.append(Part(waiting.pop(0)))
        time.sleep(0.1)
        for part in [part for part in running if part.is_over]:
            running.remove(part)
            over.append(part)
            if not part.end():
                failed.append(part.name)
    for part in over:
        for line in part.lost:
            print(f"{line[:500]} ({part.name})")
    for part in over:
        print(f"{part.closing} {part.name}")
    print(f"== {total(part.closing for part in over)} in {time.monotonic() - began:.2f}s ==")
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


def total(closings: Iterable[str]) -> str:
    """Return ``"412 passed, 1 skipped"`` over all closing lines."""
    counts: Counter[str] = Counter()
    for closing in closings:
        for number, outcome in OUTCOME.findall(closing):
            counts[outcome.rstrip("s") if outcome.startswith("error") else outcome] += int(number)
    counts.pop("deselected", None)
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items()) or "no tests ran"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # the parts hear it as well, and say what they had found
        sys.exit(130)
