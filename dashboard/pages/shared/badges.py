"""How a run's status looks: a word, a colour and an icon each, here and nowhere else."""

from __future__ import annotations

from typing import NamedTuple

from runs.models import Run
from runs.values.status import Status


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
    return BADGES[Status(status)]


def run_badge(run: Run) -> Badge:
    return PRUNED if run.is_pruned else badge(run.status)
