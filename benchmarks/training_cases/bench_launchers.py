"""One training by each launcher: the seconds from the request to the point of its first step, and from SIGKILL of a
rank to the point of the next new step, beside those of the run by torchrun's variables."""

from __future__ import annotations

import sys
from typing import cast

import pytest

from benchmarks.stack import running
from benchmarks.table import Row, line, middle, number, scaled, spread_of
from tests.systems.launchers import LAUNCHERS, PAUSE_S, Launcher, Times, curve, times
from tests.up_process import Up
from tests.whole.runs import Yard

REPEATS = 3
STEPS = 60
START = "request to the first step"
RESTART = "SIGKILL of a rank to the next new step"
AGAINST = "torchrun's variables, warm ranks"


class Measured:
    """What the runs of one launcher took and learned, or why there are none."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.missing = ""
        self.losses: list[float] = []
        self.times: list[Times] = []

    def measure(self, yard: Yard) -> None:
        """The first run, which is not timed, trains to the end: it builds the environment, and has the whole curve."""
        try:
            with self.launcher.machines(yard) as cluster:
                self.losses = curve(yard, self.launcher, cluster, STEPS)
                repeats = scaled(REPEATS) if self.launcher.is_timed else 0
                self.times = [times(yard, self.launcher, cluster) for _ in range(repeats)]
        except (Exception, pytest.skip.Exception) as error:
            self.missing, self.times = str(error)[:300], []
            yard.stop_what_is_left()
        print(f"{self.launcher.name}: {self.missing or self.times}", file=sys.stderr, flush=True)

    @property
    def starts(self) -> list[float]:
        return [one.start_s for one in self.times]

    @property
    def restarts(self) -> list[float]:
        return [one.restart_s for one in self.times]

    def compared(self, first: Measured) -> str:
        if self is first:
            return "the others are compared with these"
        if not (self.losses and first.losses):
            return "not compared"
        apart = max(abs(one - other) for one, other in zip(self.losses, first.losses, strict=True))
        return f"at most {apart:.1e} apart" if apart else "the same bits"


def rows() -> list[Row]:
    found = [Measured(launcher) for launcher in LAUNCHERS]
    with running() as stack, Yard(cast(Up, stack)) as yard:
        for one in found:
            one.measure(yard)
    first, *_ = found
    print_for_the_page(found)
    timed = [one for one in found if one.launcher.is_timed]
    starts = [row(one, first, START, one.starts, first.starts) for one in timed]
    return starts + [row(one, first, RESTART, one.restarts, first.restarts) for one in timed]


def row(one: Measured, first: Measured, what: str, ours: list[float], theirs: list[float]) -> Row:
    facts = [one.launcher.ran_on, f"{STEPS} losses: {one.compared(first)}"]
    if one.times and what == RESTART:
        facts = [f"{middle(each.steps_again for each in one.times):g} steps of {PAUSE_S:g} s are trained again"]
    peer = middle(theirs) if theirs and one is not first else None
    return Row(
        f"{what}: {one.launcher.name}", middle(ours) if ours else None, "s", peer, "" if peer is None else AGAINST,
        spread=spread_of(ours) if ours else None, note=one.missing or "; ".join(facts),
    )  # fmt: skip


def print_for_the_page(found: list[Measured]) -> None:
    """Print the table of docs/systems_compared.md."""
    print(line(("launcher", "ran on", f"{STEPS} losses", "first step, s", "after a kill, s")), file=sys.stderr)
    for one in found:
        seconds = [number(middle(each)) if each else "" for each in (one.starts, one.restarts)]
        words = (one.launcher.name, one.launcher.ran_on, one.missing or one.compared(found[0]), *seconds)
        print(line(words), file=sys.stderr)
