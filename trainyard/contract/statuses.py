"""The states of runs and of their parts. The standard library alone: the SDK and the terminal read these too."""

from enum import StrEnum


class Status(StrEnum):
    """The state of a run."""

    QUEUED = "QUEUED"
    SCHEDULED = "SCHEDULED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    RECOVERING = "RECOVERING"
    RESIZING = "RESIZING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    LOST = "LOST"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


FINAL = frozenset({Status.SUCCEEDED, Status.FAILED, Status.CANCELLED})
LIVE = frozenset(Status) - FINAL


class Phase(StrEnum):
    """Phases of an attempt on one node, in their order."""

    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    REFUSED = "refused"


OVER = (Phase.ENDED, Phase.REFUSED)


class Wanted(StrEnum):
    """States that can be wanted of a run. All but ``run`` have its ranks save and end."""

    RUN = "run"
    STOP = "stop"
    PAUSE = "pause"
    RESIZE = "resize"  # it goes on at once, on another number of nodes
    REQUEUE = "requeue"  # it goes on later: others need its nodes


class WantedPhase(StrEnum):
    """Phases that control can want of a node's part of an attempt."""

    PREPARE = "prepare"
    RUN = "run"
    STOP = "stop"


class SweepStatus(StrEnum):
    """The state of a sweep."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


SWEEP_FINAL = frozenset({SweepStatus.SUCCEEDED, SweepStatus.FAILED, SweepStatus.CANCELLED})


class TrialState(StrEnum):
    """The state of a trial of a sweep. A WAITING one has its parameters and no run yet."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    PRUNED = "PRUNED"
    FAILED = "FAILED"


TRIAL_FINAL = frozenset({TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAILED})
