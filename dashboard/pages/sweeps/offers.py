"""Which buttons a sweep has, for a person who may act on it."""

from __future__ import annotations

from typing import NamedTuple

from runs.models import Sweep
from trainyard.contract.statuses import SWEEP_FINAL, SweepStatus


class Offers(NamedTuple):
    stop: bool = False
    pause: bool = False
    resume: bool = False
    add: bool = False  # a trial, by hand
    change: bool = False  # the space and the budget: an ended sweep then goes on
    best: bool = False  # a trial is complete, so the best can be launched again


def offers_of(sweep: Sweep) -> Offers:
    is_ended = sweep.status in SWEEP_FINAL
    return Offers(
        stop=not is_ended and sweep.status != SweepStatus.STOPPING,
        pause=sweep.status == SweepStatus.RUNNING,
        resume=sweep.status == SweepStatus.PAUSED,
        add=not is_ended and sweep.status != SweepStatus.STOPPING,
        change=sweep.status != SweepStatus.STOPPING,
        best=sweep.best_id is not None,
    )
