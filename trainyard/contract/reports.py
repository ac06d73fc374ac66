"""The report of a node's part of an attempt: the phase, the ranks, and why it ended."""

from typing import Annotated, Literal

import msgspec

from trainyard.contract.base import Id, JsonObject, Name, Seconds, Sentence, Whole, WireStruct
from trainyard.contract.limits import MAX_SLOTS, MAX_TEXT, bounded, cut
from trainyard.contract.orders import LogAction
from trainyard.contract.statuses import Phase

# State of torch's process group in a script's rank: nothing is known of a cold rank.
Group = Literal["unknown", "none", "waiting", "joined"]
MAX_MATCHES = 100  # rules that were met on one node
MAX_STACK_CHARACTERS = 6_000
Stack = Annotated[str, msgspec.Meta(max_length=2 * MAX_STACK_CHARACTERS)]


class RankError(WireStruct):
    """The exception that ended a rank."""

    type: str | None = None
    message: str | None = None
    traceback: str | None = None

    def __post_init__(self) -> None:
        self.type = self.type and cut(self.type, 200)
        self.message = self.message and cut(self.message)
        self.traceback = self.traceback and cut(self.traceback, MAX_TEXT, keep_end=True)


class PendingCollective(WireStruct, kw_only=True):
    """A collective operation that a rank has entered and not left."""

    operation: Name
    group: Name = ""  # torch's name of the process group
    ranks: list[int] = []  # of the group; empty where not known
    sequence: Whole = 0  # the how-manieth of the group it is
    is_pair: bool = False  # a send or a receive, whose sequence two ranks count each for themselves


class RankStall(WireStruct, kw_only=True):
    """A rank that has made no progress for some time. Seconds are Unix time by the node's clock."""

    since: Seconds  # of the last progress
    limit_s: float = 0.0  # after so long it counts as hung
    is_over: bool = False  # the limit has passed
    is_stopped: bool = False  # the kernel has stopped the process: SIGSTOP or SIGTSTP
    step: Whole | None = None  # that it is in
    phase: Name = ""  # of the step, or of what stands between two steps
    collective: PendingCollective | None = None
    entered: dict[str, int] = {}  # the last sequence by process group
    line: Name = ""  # where its main thread is: "train.py line 84"
    stack: Stack = ""
    unacknowledged: list[Name] = []  # connections to other machines whose bytes nobody acknowledges


class RankReport(WireStruct, kw_only=True):
    """One process of the training. Times are Unix seconds by the node's clock."""

    rank: Whole
    pid: Whole | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    exit_code: Whole | None = None
    signal: Whole | None = None
    error: RankError | None = None
    has_joined: bool = False  # once ended: whether all ranks were together by then
    group: Name | None = "unknown"  # a `Group`; a newer node may know more of them
    waiting_since: Seconds | None = None  # with "waiting"
    has_listened: bool | None = None  # of a cold rank 0: whether MASTER_PORT was seen open
    has_torchrun: bool = True  # whether it has torchrun's variables
    was_ended: bool = False  # the supervisor killed it
    printed_at: Seconds | None = None  # when it last printed, to within 15 s
    computed_at: Seconds | None = None  # when it last did anything, by the counts of its threads, to within 15 s
    stall: RankStall | None = None  # it makes no progress
    oom_killed: bool = False  # the kernel counted a process that it killed for memory when this one ended
    memory_limit_bytes: Whole | None = None  # of its control group, which was reached
    exit_hang: bool = False  # its script was over, and its process neither exited nor did anything: it was ended

    @property
    def is_over(self) -> bool:
        return self.ended_at is not None


class Reason(WireStruct):
    """Reason for the end of an attempt on a node."""

    code: Name = ""
    sentence: str = ""
    at: Seconds | None = None  # of the cause, where known
    evidence: JsonObject | None = None  # fields depend on the code: `StopEvidence`, `RankEvidence`, or others

    def __post_init__(self) -> None:
        self.sentence = cut(self.sentence)
        self.evidence = self.evidence and bounded(self.evidence)


class SavedStep(WireStruct):
    """Step at which rank 0 of a recipe stopped."""

    step: int
    saved: bool | None = None  # whether the checkpoint behind the step is whole; None: the run keeps no checkpoints


class StopEvidence(WireStruct):
    """End of ranks that were asked to stop."""

    took_s: float
    grace_s: float = 0.0
    killed: list[int] = []  # ranks
    hurried: bool = False  # the server has named a shorter grace while it ran
    saved: SavedStep | None = None


class RankEvidence(WireStruct):
    """The rank that a node saw fail first."""

    node: str = ""
    rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: RankError | None = None
    stderr: list[str] = []  # last lines
    stdout: list[str] = []  # last lines
    disk_full: bool = False


class RuleMatch(WireStruct, kw_only=True):
    """A rule of the log, the first line here that fits it, and how many do."""

    label: Name
    action: LogAction = "label"
    is_builtin: bool = False
    rank: Whole
    stream: Name = ""
    line: Sentence = ""
    at: Seconds = 0.0
    count: Whole = 1


class AttemptReport(WireStruct, kw_only=True):
    """Report of a supervisor, on every change and every second."""

    at: Seconds
    attempt: Id
    run: Id
    fence: Whole
    node: Id
    phase: Phase
    address: Annotated[str, msgspec.Meta(max_length=120)] | None = None  # where ranks of other nodes reach this one
    port: Whole | None = None  # free for MASTER_PORT, with "ready"
    ports: list[Whole] = []  # free for each rank here, with "ready", where `task.launch` needs them
    supervisor_pid: Whole | None = None
    reason: Reason | None = None  # None when every rank ended with 0
    ranks: Annotated[list[RankReport], msgspec.Meta(max_length=MAX_SLOTS)] = []
    producers: dict[Id, Whole] = {}  # last sequence by producer; final only when the phase is "ended"
    is_leased: bool = False  # silence of the server ends it at 0.8 of `lease_s`
    matches: Annotated[list[RuleMatch], msgspec.Meta(max_length=MAX_MATCHES)] = []  # of rules of the log
    # Of the ranks' container, with its digest, once it is there.
    image: Annotated[str, msgspec.Meta(max_length=700)] = ""
    preparation: Name = ""  # what the node prepares, with "preparing"
