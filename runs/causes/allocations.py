"""Ends of the machines that an engine had brought, and what they mean for the attempt on them."""

from collections.abc import Sequence
from enum import StrEnum

from runs.causes.failures import Failure
from trainyard.contract.base import JsonObject, WireStruct
from trainyard.contract.causes import CauseClass


class EndKind(StrEnum):
    """Reasons for which the engine's system ended its job."""

    PREEMPTED = "preempted"  # others have the machines now
    TIME_LIMIT = "time-limit"  # of the job, not of the run
    CANCELLED = "cancelled"  # by somebody, with the system's own tools
    NODE_FAILED = "node-failed"
    OUT_OF_MEMORY = "out-of-memory"  # its programs used more than they may
    REFUSED = "refused"  # the system does not take the job, and would not take it again
    NEVER_JOINED = "never-joined"  # it ended before its nodes joined
    ENDED = "ended"  # its programs ended, or were ended
    FORGOTTEN = "forgotten"  # the system does not know the job any more


class AllocationEnding(WireStruct, kw_only=True):
    """The end of the machines of an attempt, as the engine's system reports it. ``at``: Unix seconds."""

    kind: EndKind
    sentence: str
    at: float
    job: str = ""
    exit_code: int | None = None


CLASSES = {
    EndKind.PREEMPTED: CauseClass.PREEMPTED,
    EndKind.TIME_LIMIT: CauseClass.PREEMPTED,  # the run may go on in another job
    EndKind.CANCELLED: CauseClass.STOPPED,
    EndKind.NODE_FAILED: CauseClass.NODE_LOST,
    EndKind.OUT_OF_MEMORY: CauseClass.OUT_OF_MEMORY,
    EndKind.REFUSED: CauseClass.REFUSED,
    EndKind.NEVER_JOINED: CauseClass.REFUSED,
    EndKind.ENDED: CauseClass.INTERRUPTED,
    EndKind.FORGOTTEN: CauseClass.INTERRUPTED,
}


def code_of_ending(ending: AllocationEnding) -> str:
    return f"machines-{ending.kind}"


def failure_of_ending(ending: AllocationEnding, reported: Sequence[Failure]) -> Failure:
    """Return the proof of failure. Where the system took the machines, it comes before what nodes ``reported``: they
    only felt that. Where the job ended with its programs, or a node names the rank that needed too much memory, the
    nodes know more."""
    is_named = ending.kind == EndKind.OUT_OF_MEMORY and any(
        one.cause_class == CauseClass.OUT_OF_MEMORY for one in reported
    )
    at = float("inf") if is_named or ending.kind in (EndKind.ENDED, EndKind.FORGOTTEN) else float("-inf")
    evidence: JsonObject = {"job": ending.job, "kind": str(ending.kind), "exit_code": ending.exit_code}
    return Failure(at, code_of_ending(ending), CLASSES[ending.kind], ending.sentence, "", evidence)
