"""Stepping sweeps every second, in a thread of control's own: a slow proposal must not hold up recovery."""

from __future__ import annotations

from runs.models.runs import run_ended
from runs.serving.clock import Clock
from runs.sweeps.stepping import Stepper

EVERY_S = 0.5
LOCK_S = 5  # where a round outlasts it, rows keep two processes from launching the same trial


def sweep_clock() -> Clock:
    clock = Clock("sweeps", Stepper().step_all, every_s=EVERY_S, lock_s=LOCK_S)
    run_ended.connect(clock.wake)  # the next trial takes the place at once
    return clock
