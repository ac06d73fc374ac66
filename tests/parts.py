"""`make test` and, with the word "extended", `make test-all`: tests in parts, three at a time, the longest first. Each
part is a pytest of its own, with servers of its own; what shares a running Trainyard, and the browser with its event
loop, are parts by themselves. `make test-all` has what `make test` leaves out: tests that are marked "extended", and
those of `tests/runs` that have a database, on the second one; with the word "database", `make test-database`, these
alone, without what is extended. The long experiments, a real Slurm, a real Ray and the systems of others have targets
of their own.

Prints what each part says with its name before it, and at the end what failed, the closing line of each and one for
all. A few tests that failed are run once more, alone on the machine: one that passes then is named as unsteady. That is
a fault too, of the test or of the product under load, and its first failure stays in what was printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dashboard.up.parent_death import tethered

ROOT = Path(__file__).resolve().parents[1]
LANES = 3  # most parts wait a good deal for processes of theirs: three keep two cores busy
# Compiled files are kept even where a machine wants none: parts collect the same tests, which compiling makes half of.
COMPILING = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
MOST_AGAIN = 6  # more failures than that are no matter of load


class Tests(NamedTuple):
    """What one pytest is asked for: options, folders, and what its environment has besides."""

    options: list[str]
    folders: list[str]
    changes: dict[str, str]


# Every test is in one part, but for tests/parity, tests/quality and tests/systems, which are `make parity`, `make
# quality` and `make systems`: minutes of up to eight processes. What has to do with the database runs on PostgreSQL
# too, in `make test-all`.
NEVER = ("--ignore=tests/parity", "--ignore=tests/quality", "--ignore=tests/systems")
# Minutes each, with targets of their own.
ALONE = (
    "--ignore=tests/chaos",
    "--ignore=tests/security",
    "--ignore=tests/whole/test_images.py",
    "--ignore=tests/whole/test_kubernetes.py",
    "--ignore=tests/whole/test_ray.py",
    "--ignore=tests/whole/test_sagemaker.py",
    "--ignore=tests/whole/slurm",
    "--ignore=tests/whole/ssh",
    "--ignore=tests/whole/test_sweeps.py",
    "--ignore=tests/whole/test_population.py",
    "--ignore=tests/whole/test_tls.py",
    "--ignore=tests/workers/containers/test_podman.py",
    "--ignore=tests/workers/containers/test_registry.py",
    "--ignore=tests/workers/containers/test_sessions.py",
    "--ignore=tests/workers/containers/test_terminal_tab.py",
    "--ignore=tests/whole/test_notebook.py",
)
APART = ("--ignore=tests/browser", "--ignore=tests/dashboard", "--ignore=tests/runs", "--ignore=tests/workers")
# Where tests that share a running Trainyard or the browser may lie: their part collects nothing else, which takes
# seconds. tests/conftest.py refuses one that lies elsewhere.
SHARING = ("tests/whole", "tests/dashboard", "tests/chaos")
PARTS = {  # of what takes long first, so that no lane ends long before the others
    "whole": Tests(["-m", "whole and not extended"], list(SHARING), {}),
    "workers": Tests(["-m", "not extended", "--ignore=tests/workers/training"], ["tests/workers"], {}),
    "runs": Tests(["-m", "not extended"], ["tests/runs"], {}),
    "browser": Tests(["-m", "not extended"], ["tests/browser"], {}),
    "others": Tests(["-m", "not whole and not extended", *APART, *NEVER], ["tests"], {}),
    "dashboard": Tests(["-m", "not whole and not extended"], ["tests/dashboard"], {}),
    "training": Tests(["-m", "not extended"], ["tests/workers/training"], {}),
}
EXTENDED = {
    "own stacks": Tests(["-m", "not whole and extended", *ALONE], ["tests/whole"], {}),
    "others": Tests(
        ["-m", "extended", "--ignore=tests/whole", "--ignore=tests/browser", *ALONE, *NEVER], ["tests"], {}
    ),
    "browser": Tests(["-m", "extended"], ["tests/browser"], {}),
    "whole": Tests(["-m", "whole and extended", *ALONE], ["tests/whole"], {}),
}
HALF = ("tests/runs/api", "tests/runs/ingest", "tests/runs/life/reconcile")  # of the tests with a database
DATABASE = {
    "PostgreSQL 1": Tests(["-m", "django_db and not whole"], list(HALF), {"TRAINYARD_TEST_DATABASE": "postgresql"}),
    "PostgreSQL 2": Tests(
        ["-m", "django_db and not whole", *(f"--ignore={folder}" for folder in HALF)], ["tests/runs"],
        {"TRAINYARD_TEST_DATABASE": "postgresql"},
    ),
}  # fmt: skip
QUICK = {
    name: part._replace(options=["-m", "django_db and not whole and not extended", *part.options[2:]])
    for name, part in DATABASE.items()
}
GROUPS = {"": PARTS, "database": QUICK, "extended": {**EXTENDED, **DATABASE}}
CLOSING = re.compile(r"^=*[ ]*((\d+ [a-z]+(, )?)+|no tests ran).* in [\d.]+s")
LOST = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$")  # pytest's own summary of one test
WIDTH = max(map(len, [*PARTS, *GROUPS["extended"]]))
OUTCOME = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)")


class Part:
    """One pytest process and what it says. Started by the main thread, which its life is tied to. ``only``: of its
    tests those alone, by pytest's names."""

    def __init__(self, name: str, tests: Tests, only: Sequence[str] = ()) -> None:
        options, folders, changes = tests
        self.name = name
        self.tests = tests
        self.closing = ""
        self.lost: list[str] = []
        self._title = f"{name}, again" if only else name
        self._process = subprocess.Popen(
            tethered([sys.executable, "-m", "pytest", *options, *(only or folders)]), cwd=ROOT,
            env={**COMPILING, **changes}, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @property
    def failed(self) -> list[str]:
        """The names of those that failed."""
        return [match[1] for line in self.lost if (match := LOST.match(line))]

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
                print(f"{self._title:{WIDTH}} | {line}", end="", flush=True)
                if LOST.match(line):
                    self.lost.append(line.rstrip("\n"))
                if CLOSING.match(line):
                    self.closing = line.rstrip("\n")


def main(parts: Mapping[str, Tests]) -> int:
    began = time.monotonic()
    over, failed = in_lanes(parts)
    unsteady = again(failed) if sum(len(part.lost) for part in failed) <= MOST_AGAIN else []
    for part in failed:
        for line in part.lost:
            print(f"{'UNSTEADY, it passed alone: ' if part in unsteady else ''}{line[:500]} ({part.name})")
    for part in over:
        print(f"{part.closing} {part.name}")
    counts = total(part.closing for part in over)
    for part in unsteady:  # what failed has passed since
        counts["passed"] += len(part.lost)
        counts.subtract(total([part.closing]) & Counter(failed=len(part.lost), error=len(part.lost)))
    print(f"== {in_words(counts)} in {time.monotonic() - began:.2f}s ==")
    names = [part.name for part in failed if part not in unsteady]
    if names:
        print(f"Failed: {', '.join(names)}")
    return 1 if names else 0


def in_lanes(parts: Mapping[str, Tests]) -> tuple[list[Part], list[Part]]:
    """Run all parts, and return them in the order of their ends, and those in which something failed."""
    waiting, running, over, failed = list(parts), list[Part](), list[Part](), list[Part]()
    while waiting or running:
        while waiting and len(running) < LANES:
            name = waiting.pop(0)
            running.append(Part(name, parts[name]))
        time.sleep(0.1)
        for part in [part for part in running if part.is_over]:
            running.remove(part)
            over.append(part)
            if not part.end():
                failed.append(part)
    return over, failed


def again(failed: Iterable[Part]) -> list[Part]:
    """Run what failed once more, a part after the other, and return the parts in which all of it passed then."""
    return [part for part in failed if part.failed and Part(part.name, part.tests, part.failed).end()]


def total(closings: Iterable[str]) -> Counter[str]:
    """Return how many passed, failed and so on by all closing lines."""
    counts: Counter[str] = Counter()
    for closing in closings:
        for number, outcome in OUTCOME.findall(closing):
            counts[outcome.rstrip("s") if outcome.startswith("error") else outcome] += int(number)
    counts.pop("deselected", None)
    return counts


def in_words(counts: Counter[str]) -> str:
    """Return ``"412 passed, 1 skipped"``."""
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number) or "no tests ran"


if __name__ == "__main__":
    try:
        sys.exit(main(GROUPS[" ".join(sys.argv[1:])]))
    except KeyboardInterrupt:  # the parts hear it as well, and say what they had found
        sys.exit(130)
