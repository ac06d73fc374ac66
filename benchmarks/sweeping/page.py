"""How soon the page of a sweep shows its first rows and pictures, in Chromium on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.chromium import ROOT, Window, visit, window
from benchmarks.stack import Stack, running

VISITS = 5
PARTS = ("painted", "columns asked", "columns came", "kilobytes of columns")
Visit = dict[str, float]  # "drawn" and the parts, in milliseconds since the navigation


def visits_of(counts: Sequence[int]) -> list[list[Visit]]:
    """Return the visits to a sweep of each number of trials. Server and browser share the machine's cores."""
    with running(nodes=0) as stack, window(stack.home, stack.url) as seen:
        return [_visits(seen, f"{stack.url}/sweeps/{_plant(stack, count)}/") for count in counts]


def _visits(seen: Window, url: str) -> list[Visit]:
    visit(seen, url, "sweep")  # scripts and styles are fetched once in a browser's life
    return [visit(seen, url, "sweep") for _ in range(VISITS)]


def _plant(stack: Stack, count: int) -> str:
    """Write a sweep into the database of the stack, and return its id."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load.long_sweep", str(count)], cwd=ROOT, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "TRAINYARD_HOME": str(stack.home)},
    )  # fmt: skip
    return done.stdout.split()[-1]
