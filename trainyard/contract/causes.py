"""Cause of an attempt's end: one class, one sentence and the evidence. Consequences for other ranks are beneath it."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec

from trainyard.contract.base import JsonObject, Seconds, Sentence, WireStruct, said
from trainyard.contract.reports import Stack


class CauseClass(StrEnum):
    """Classes of causes that end an attempt. A policy of restarts names its actions by these words."""

    USER_ERROR = "user-error"  # an exception of the user's code, or its own exit code
    DATA_PROBLEM = "data-problem"  # the data cannot be used as the spec describes it
    NODE_UNFIT = "node-unfit"  # this node cannot use the data, or lacks a program, where another may do
    REFUSED = "refused"  # a node cannot prepare what the spec asks for
    ENVIRONMENT = "environment"  # the packages that the spec asks for cannot be installed
    OUT_OF_MEMORY = "out-of-memory"  # the kernel or a cgroup ended a process for its memory
    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    DISK_FULL = "disk-full"
    STORAGE = "storage"  # a checkpoint could not be written or read
    KILLED = "killed"  # a rank was ended by a signal that nobody here sent
    PROCESS_LOST = "process-lost"  # the supervisor, the process reaper or the warm process died
    NODE_LOST = "node-lost"  # out of contact, shut down, or started anew
    NETWORK = "network"  # a connection between ranks broke, and both ends live
    COLLECTIVE_TIMEOUT = "collective-timeout"
    HANG = "hang"  # no step, or a collective that only some ranks entered
    GPU_FAULT = "gpu-fault"  # Xid, ECC, a GPU that fell off the bus
    INTERRUPTED = "interrupted"  # the node was shut down gracefully
    PREEMPTED = "preempted"  # a run of higher priority needed the nodes
    RESIZED = "resized"  # the run goes on, on another number of nodes
    TIME_LIMIT = "time-limit"
    STOPPED = "stopped"  # a person asked for it
    UNKNOWN = "unknown"


class Consequence(WireStruct):
    """A consequence of the cause on another rank."""

    sentence: str
    node: str = ""
    rank: int | None = None


class Cause(WireStruct, kw_only=True):
    """The cause of an attempt's end, as it is stored with the attempt and served by REST."""

    cause_class: CauseClass = msgspec.field(name="class")
    sentence: str
    node: Annotated[str, said("empty: no node in particular")] = ""
    rank: int | None = None
    evidence: JsonObject = {}
    consequences: list[Consequence] = []


HangAction = Literal["notify", "restart", "stop"]


class HangKind(StrEnum):
    STOPPED = "stopped"  # the process of a rank was stopped by a signal
    NOT_ENTERED = "not-entered"  # other ranks wait in a collective for this one
    NO_STEP = "no-step"  # nobody waits for it in a collective, and it makes no step
    MISMATCH = "mismatch"  # ranks wait in different collectives of one group
    NETWORK = "network"  # all ranks wait in the same collective, and no bytes move


class RankStack(WireStruct):
    """Stack of a rank."""

    rank: int
    node: str
    state: str  # in words
    stack: Stack = ""


class HangFinding(WireStruct, kw_only=True):
    """A hang of an attempt, as control found it."""

    kind: HangKind
    sentence: Sentence
    action: HangAction = "notify"
    acts: Annotated[bool, said("whether the attempt is ended for it")] = False
    node: str = ""
    rank: int | None = None
    collective: str = ""  # the operation that others wait in
    line: str = ""
    at: Seconds = 0.0
    is_of_lost_node: bool = False  # `node` is out of contact, and the others' ranks miss it, too
    stacks: list[RankStack] = []

    @property
    def code(self) -> str:
        """The code of the reason with which supervisors end the attempt."""
        if self.is_of_lost_node:
            return "node_lost"
        return "network_stall" if self.kind == HangKind.NETWORK else "hang"

    def evidence(self) -> JsonObject:
        """Return what stands with the reason."""
        found: JsonObject = msgspec.to_builtins(self)
        return {name: found[name] for name in ("kind", "node", "rank", "collective", "line", "stacks", "action")}
