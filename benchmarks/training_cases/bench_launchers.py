"""One training by each launcher: the seconds from the request to the point of its first step, and from SIGKILL of a
rank to the point of the next new step, beside those of the run by torchrun's variables."""

from __future__ import annotations

import os
import sys
from typing import cast

from benchmarks.stack import running
from benchmarks.table import Row, middle, scaled, spread_of
from tests.systems.launchers import LAUNCHERS, Launcher, Times, curve, times
from tests.up_process import Up
from tests.whole.runs import Yard

REPEATS = 3
STEPS = 60
AGAINST = "torchrun's variables, warm ranks"


class Measured:
    """What the runs of one launcher took, or why there are none."""

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
                self.times = [times(yard, self.launcher, cluster) for _ in range(scaled(REPEATS))]
        except BaseException as error:  # pytest's skip is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            self.missing = str(error)[:300]
            yard.stop_what_is_left()
        print(f"{self.launcher.name}: {self.missing or self.times}", file=sys.stderr, flush=True)

    def note(self, first: Measured) -> str:
        if self.missing:
            return self.missing
        apart = max(abs(one - other) for one, other in zip(self.losses, first.losses, strict=True))
        same = f"{STEPS} losses " + (f"at most {apart:.1e} apart" if apart else "equal to the bit")
        return f"{self.launcher.ran_on}; {same}"


def rows() -> list[Row]:
    found = [Measured(launcher) for launcher in LAUNCHERS]
    load = os.getloadavg()[0]
    with running() as stack, Yard(cast(Up, stack)) as yard:
        for one in found:
            one.measure(yard)
    return [row_of(one, found[0], what, load) for what in ("start", "restart") for one in found]


def row_of(one: Measured, first: Measured, what: str, load: float) -> Row:
    label = "request to the first step" if what == "start" else "SIGKILL of a rank to the next new step"
    ours, theirs = seconds(one, what), seconds(first, what)
    note = f"{one.note(first)}; load {load:.1f}" if what == "start" else note_of_restarts(one)
    return Row(f"{label}: {one.launcher.name}", middle(ours) if ours else None, "s",
               middle(theirs) if theirs and one is not first else None, AGAINST if one is not first else "",
               spread=spread_of(ours) if ours else None, note=note)  # fmt: skip


def seconds(one: Measured, what: str) -> list[float]:
    return [each.start_s if what == "start" else each.restart_s for each in one.times]


def note_of_restarts(one: Measured) -> str:
    again = [each.steps_again for each in one.times]
    return one.missing or f"{middle(again):g} steps of 0.02 s are trained again"
