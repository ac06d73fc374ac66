"""Buttons of a sweep, for a person."""

from typing import NamedTuple

from runs.models import Role, Sweep
from runs.rights.access import Permission, Someone, can
from trainyard.contract.statuses import SWEEP_FINAL, SweepStatus


class Offers(NamedTuple):
    stop: bool = False
    pause: bool = False
    resume: bool = False
    add: bool = False  # a trial, by hand
    change: bool = False  # the space and the budget: an ended sweep then goes on
    best: bool = False  # a trial is complete, so the best can be launched again
    again: str = "again"  # how often, where the runs have seeds
    clone: bool = False
    delete: bool = False


def offers_of(user: Someone, sweep: Sweep) -> Offers:
    may_stop = can(user, sweep.project, Permission.SWEEPS_STOP)
    may_launch = can(user, sweep.project, Permission.SWEEPS_LAUNCH)
    is_ended, is_stopping = sweep.status in SWEEP_FINAL, sweep.status == SweepStatus.STOPPING
    return Offers(
        stop=may_stop and not is_ended and not is_stopping,
        pause=may_stop and sweep.status == SweepStatus.RUNNING,
        resume=may_stop and sweep.status == SweepStatus.PAUSED,
        add=may_launch and not is_ended and not is_stopping,
        change=may_launch and not is_stopping,
        best=may_launch and sweep.best_id is not None,
        again="with three seeds" if has_seeds(sweep) else "again",
        clone=may_launch,
        delete=is_ended and _may_delete(user, sweep),
    )


def has_seeds(sweep: Sweep) -> bool:
    """Return whether its runs have a seed: a script knows only what its arguments say."""
    return "recipe" in (sweep.base_spec.get("task") or {})


def _may_delete(user: Someone, sweep: Sweep) -> bool:
    is_own = sweep.created_by_id == getattr(user, "pk", None)
    return can(user, sweep.project, Permission.SWEEPS_DELETE) and (is_own or can(user, sweep.project, Role.MAINTAINER))
