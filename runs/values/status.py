"""The life of a run: which of its states may follow which, and why it stays queued. Imports nothing of Django."""

from enum import StrEnum
from typing import NamedTuple

from trainyard.contract.statuses import FINAL, LIVE, OVER, Phase, Status, Wanted

__all__ = [
    "FINAL", "LIVE", "LOCAL", "OVER", "PLACED", "TRANSITIONS", "Phase", "Reason", "Status", "TransitionError",
    "WaitCode", "Wanted", "check_transition",
]  # fmt: skip

# An attempt exists (or is being looked for) in these states: nodes hold slots for it.
PLACED = frozenset(
    {Status.SCHEDULED, Status.STARTING, Status.RUNNING, Status.RECOVERING, Status.RESIZING, Status.STOPPING,
     Status.LOST}
)  # fmt: skip

TRANSITIONS: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.SCHEDULED, Status.PAUSED, Status.CANCELLED, Status.FAILED}),
    Status.SCHEDULED: frozenset(
        {Status.STARTING, Status.QUEUED, Status.RECOVERING, Status.STOPPING, Status.CANCELLED, Status.FAILED}
    ),
    Status.STARTING: frozenset({Status.RUNNING, Status.QUEUED, Status.RECOVERING, Status.STOPPING, *FINAL}),
    Status.RUNNING: frozenset({Status.RECOVERING, Status.RESIZING, Status.PAUSED, Status.STOPPING, *FINAL}),
    # Again: the attempt that was out of contact has failed, and the next one is looked for.
    Status.RECOVERING: frozenset({*PLACED, Status.QUEUED, Status.PAUSED, *FINAL}),
    # Again: the attempt has ended, and the next one is looked for.
    Status.RESIZING: frozenset({*PLACED, Status.PAUSED, *FINAL}) - {Status.LOST},
    Status.PAUSED: frozenset({Status.QUEUED, Status.CANCELLED}),
    # Recovering: another attempt takes the place of the one that was asked to end.
    Status.STOPPING: frozenset({Status.RECOVERING, Status.PAUSED, Status.LOST, Status.QUEUED, *FINAL}),
    Status.LOST: frozenset({Status.STARTING, Status.RUNNING, Status.RECOVERING, Status.STOPPING, *FINAL}),
    Status.SUCCEEDED: frozenset(),
    # Final as far as Trainyard goes; only a person restarts a run.
    Status.FAILED: frozenset({Status.QUEUED}),
    Status.CANCELLED: frozenset({Status.QUEUED}),
}

# A run that was logged outside of Trainyard and sent here: what it is follows from what was sent so far, and every
# sync may know more. It is RUNNING while its heartbeats come. It is never queued, placed or stopped.
LOCAL = frozenset({Status.RUNNING, Status.LOST, *FINAL})
LOCAL_TRANSITIONS = {status: LOCAL - {status} for status in LOCAL}


class TransitionError(ValueError):
    """A run was asked to go where its state does not lead."""

    def __init__(self, current: Status, wanted: Status) -> None:
        super().__init__(f"a run that is {current} cannot become {wanted}")
        self.current = current
        self.wanted = wanted


def check_transition(current: Status, wanted: Status, *, is_local: bool = False) -> None:
    """Raise TransitionError unless ``wanted`` may follow ``current``; ``is_local`` is about a run of ``LOCAL``."""
    table = LOCAL_TRANSITIONS if is_local else TRANSITIONS
    if wanted not in table.get(current, frozenset()):
        raise TransitionError(current, wanted)


class WaitCode(StrEnum):
    """Codes of reasons to wait, by which waits are counted: a small fixed set. A run that control has not looked at
    yet has another, such as queued."""

    TIME = "waits-for-time"
    RUN = "waits-for-run"
    ARRAY = "waits-for-array"
    SWEEP = "waits-for-sweep"
    NOT_ALLOWED = "project-not-allowed"
    REGION = "other-region"
    QUOTA = "quota-reached"
    BUDGET = "budget-spent"
    NO_NODE = "no-node-fits"
    LEFT_OUT = "nodes-left-out"
    UNUSABLE = "nodes-unusable"
    SLOTS = "slots-taken"
    BEHIND = "behind-others"
    CHECKS = "waits-for-checks"
    CLEANUP = "waits-for-cleanup"


class Reason(NamedTuple):
    code: WaitCode
    sentence: str
