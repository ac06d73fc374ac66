"""How the state of a sweep and of a trial looks: a word, a colour and an icon each."""

from __future__ import annotations

from dashboard.pages.shared.badges import PRUNED, Badge
from trainyard.contract.statuses import SweepStatus, TrialState

SWEEPS = {
    SweepStatus.RUNNING: Badge("running", "green", "status-running", "pulsing"),
    SweepStatus.PAUSED: Badge("paused", "violet", "status-paused"),
    SweepStatus.STOPPING: Badge("stopping", "grey", "status-stopping", "striped"),
    SweepStatus.SUCCEEDED: Badge("succeeded", "green", "status-succeeded", "solid"),
    SweepStatus.FAILED: Badge("failed", "red", "status-failed", "solid"),
    SweepStatus.CANCELLED: Badge("cancelled", "grey", "status-cancelled", "solid"),
}
TRIALS = {
    TrialState.WAITING: Badge("waiting", "grey", "status-queued"),
    TrialState.RUNNING: Badge("running", "green", "status-running", "pulsing"),
    TrialState.COMPLETE: Badge("complete", "green", "status-succeeded", "solid"),
    TrialState.PRUNED: PRUNED,
    TrialState.FAILED: Badge("failed", "red", "status-failed", "solid"),
}


def sweep_badge(status: str) -> Badge:
    return SWEEPS[SweepStatus(status)]


def trial_badge(state: str) -> Badge:
    return TRIALS[TrialState(state)]
