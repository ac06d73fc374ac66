"""The down document: what control wants of one node, rewritten from the database every tick."""

from typing import Literal

from trainyard.contract.base import BadDocument, JsonObject, WireStruct, convert
from trainyard.contract.causes import HangFinding
from trainyard.contract.orders import CodeReference, Go, Locked
from trainyard.contract.statuses import WantedPhase


class TraceRequest(WireStruct):
    """Steps of an attempt that are to be traced."""

    id: str
    first: int  # step
    steps: int  # how many
    ranks: Literal["all"] | list[int] = "all"


class Peer(WireStruct):
    """Another node of the cluster, and where it answers."""

    node: str  # id
    name: str
    address: str
    port: int


class CollectivePlan(WireStruct):
    """A node's part of a short collective: its rank, and where the nodes meet."""

    rank: int
    world_size: int
    address: str
    port: int


class ProbeRequest(WireStruct):
    """To which nodes connections are tried from now on."""

    peers: list[Peer] = []
    id: str = ""  # of a preflight that somebody waits for: everything is looked at now
    collective: CollectivePlan | None = None  # with an id


class DesiredAttempt(WireStruct, kw_only=True):
    """Wanted state of a node's part of one attempt."""

    run: str
    fence: int
    wanted: WantedPhase
    order: Locked | None = None  # an `Order`, until the node has reported the attempt
    go: Go | None = None  # once every node of the attempt is ready
    grace_s: float | None = None  # with "stop": seconds for the ranks to end; None: what the spec's limits.grace says
    # Whether the server may place another attempt after a silence of `lease_s`. If not, the
    # ranks go on without contact for as long as it takes. A supervisor repeats it as `AttemptReport.is_leased`: only
    # then is silence a proof that nothing runs. Before go no rank exists, and silence ends the supervisor in any case.
    may_replace: bool = False
    leftovers: Literal["", "upload", "discard"] = ""  # a person's decision about what was not sent
    is_gone: bool = False  # the run was deleted: nobody waits for what is left of it
    trace: TraceRequest | None = None
    hang: HangFinding | None = None  # for which its ranks are to be ended at once
    watermarks: dict[str, int] = {}  # by producer: the last sequence that is stored without a gap
    resend: list[str] = []  # producers with a gap: send again from the watermark


class StandbyRun(WireStruct):
    """A run that may come to a spare node: what the node prepares for it."""

    run: str
    code: CodeReference | None = None
    python: str = ""  # its `task.python`


class Desired(WireStruct):
    """Wanted state of a node. An absent attempt, or an old document, means *unknown*, never *stop*."""

    at: float  # Unix seconds, by the server's clock
    node: str = ""  # id
    epoch: str = ""  # of Valkey's data
    server: str = ""  # URL of the server's REST, for a node that finds nobody where it used to be
    attempts: dict[str, DesiredAttempt] = {}  # by attempt id
    probe: ProbeRequest | None = None  # None: as before
    standby: list[StandbyRun] = []  # of a spare node
    free_memory: list[str] = []  # runs of whose states in the node's memory nobody goes on any more


class Nudge(WireStruct):
    """The command NUDGE: read your ``Desired`` now.

    What it says of attempts is what ``Desired`` is about to say of them, so that a node begins without reading first.
    """

    at: float = 0.0  # Unix seconds
    attempts: dict[str, DesiredAttempt] = {}  # by attempt id; those that have news


def lenient_desired(document: JsonObject) -> tuple[Desired, dict[str, str]]:
    """Return the document without the attempts that have another shape, and why each of them was left out: one attempt
    does not hold up the others. Raises BadDocument where the rest has another shape."""
    entries = document.get("attempts")
    if not isinstance(entries, dict):
        return convert(document, Desired), {}
    desired, left_out = convert({**document, "attempts": {}}, Desired), {}
    attempts: dict[str, DesiredAttempt] = {}
    for attempt, entry in entries.items():
        try:
            attempts[attempt] = convert(entry, DesiredAttempt)
        except BadDocument as error:
            left_out[attempt] = str(error)
    desired.attempts = attempts
    return desired, left_out
