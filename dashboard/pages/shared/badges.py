"""Badges for the status of a run, a sweep or a trial: a word, a colour and an icon each, here and nowhere else."""

from typing import NamedTuple

from runs.models import Run
from runs.values.status import Status
from trainyard.contract.statuses import TrialState


class Badge(NamedTuple):
    word: str
    colour: str
    icon: str
    look: str = ""  # pulsing, striped, solid


BADGES = {
    Status.QUEUED: Badge("queued", "grey", "status-queued"),
    Status.SCHEDULED: Badge("scheduled", "blue", "status-scheduled"),
    Status.STARTING: Badge("starting", "blue", "status-starting"),
    Status.RUNNING: Badge("running", "green", "status-running", "pulsing"),
    Status.RECOVERING: Badge("recovering", "amber", "status-recovering"),
    Status.RESIZING: Badge("resizing", "amber", "status-resizing"),
    Status.PAUSED: Badge("paused", "violet", "status-paused"),
    Status.STOPPING: Badge("stopping", "grey", "status-stopping", "striped"),
    Status.LOST: Badge("lost", "rust", "status-lost"),
    Status.SUCCEEDED: Badge("succeeded", "green", "status-succeeded", "solid"),
    Status.FAILED: Badge("failed", "red", "status-failed", "solid"),
    Status.CANCELLED: Badge("cancelled", "grey", "status-cancelled", "solid"),
}
PRUNED = Badge("pruned", "grey", "pruned")


def badge(status: str) -> Badge:
    """``status`` is a run's, or a sweep's: their names are among those of runs."""
    return BADGES[Status(status)]


def run_badge(run: Run) -> Badge:
    return PRUNED if run.is_pruned else badge(run.status)


TRIALS = {
    TrialState.WAITING: Badge("waiting", "grey", "status-queued"),
    TrialState.RUNNING: BADGES[Status.RUNNING],
    TrialState.COMPLETE: Badge("complete", "green", "status-succeeded", "solid"),
    TrialState.PRUNED: PRUNED,
    TrialState.FAILED: BADGES[Status.FAILED],
}


def trial_badge(state: str) -> Badge:
    return TRIALS[TrialState(state)]
