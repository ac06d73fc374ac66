"""Orders of control to a node about an attempt: prepare it, then begin.

Both travel in ``Desired``, and for speed in the ``Nudge`` that announces it.
"""

from typing import Literal

from trainyard.contract.base import SpecDocument, WireStruct
from trainyard.contract.limits import DEFAULT_LEASE_S


class CodeReference(WireStruct):
    """The bundle of a script's files; the node fetches it over REST."""

    sha256: str
    size_bytes: int = 0


LogAction = Literal["label", "notify", "exclude-node", "no-retry", "metric"]


class LogRule(WireStruct):
    """Lines of a log that fit the pattern (RE2's syntax) get the label, and the action follows: an event in the run's
    history; after a failure no restart, or one without the node that has printed the line; or a point of the metric
    that has the label's name."""

    label: str
    pattern: str
    action: LogAction = "label"
    is_builtin: bool = False


class Order(WireStruct, kw_only=True):
    """Instructions by which a node prepares its part of an attempt. They travel locked: a run's environment is in it.

    The node keeps them in the attempt's folder. Of an attempt that never started there, the first four fields count.
    """

    attempt: str
    run: str
    fence: int
    node: str = ""  # id
    node_name: str = ""
    node_rank: int = 0  # among the attempt's nodes
    num_nodes: int = 1
    first_rank: int = 0  # of this node's ranks
    num_ranks: int = 0  # on this node
    world_size: int = 0
    slots: list[int] = []  # one for each rank here
    shard: int = 0  # of the stream
    name: str = ""  # of the run
    spec: SpecDocument = SpecDocument({})  # frozen, as `trainyard.spec` reads it
    accelerator: str = "cpu"  # or "gpu"
    code: CodeReference | None = None
    restart: int = 0  # how often ranks of the run were started before
    lease_s: float = DEFAULT_LEASE_S  # silence of the server after which the ranks may have to end
    replica_key: str = ""  # of the attempt, for parts of states that its nodes send each other; empty: none are
    spark_secret: str = ""  # of the attempt, where ``task.launch`` has spark
    isolation_minimum: int = 0  # sandbox level below which the cluster runs nothing
    has_storage_keys: bool = False  # they come with the secrets
    # The project encrypts: records travel locked, and nothing of the attempt stays here once the server has it.
    encrypts: bool = False
    image_digest: str = ""  # of the container's image, once an attempt of the run has resolved its tag
    log_rules: list[LogRule] = []  # of the cluster and of the run; the node adds those that ship with it


class CheckpointReference(WireStruct):
    """A checkpoint by the run and the attempt (its fence) that wrote it."""

    run: str
    step: int
    fence: int


class MemoryNode(WireStruct):
    """A node of the attempt, and where it receives parts of states."""

    node: str  # name
    address: str
    port: int | None = None  # None: it keeps no states


class MemoryOrder(WireStruct, kw_only=True):
    """Use that an attempt may make of states in the memory of its nodes."""

    # States of attempts above this fence may be gone on from; None: none, as behind a pause.
    restore_above: int | None = None
    # The last step whose records arrived from a node that is lost. A later state would leave a gap in the series.
    restore_until_step: int | None = None
    nodes: list[MemoryNode] = []  # all of the attempt, in their order: each sends to the next that receives


class SkippedSteps(WireStruct):
    """Steps whose batches are left out, both ends included, as the attempt with that fence counted them."""

    fence: int
    first: int
    last: int


class Go(WireStruct):
    """Every node of the attempt is ready: where the ranks meet, and what they go on from."""

    master_addr: str
    master_port: int
    checkpoints: list[CheckpointReference] = []  # newest first, MAX_OFFERED at most; none: the ranks start anew
    memory: MemoryOrder | None = None  # None: control is of an earlier version
    skips: list[SkippedSteps] = []  # in the order in which they were decided
    workers: list[str] = []  # host:port of MPI's process manager and of each rank, where `task.launch` needs them


class Locked(WireStruct):
    """A document that only the node's key opens: see ``locks``."""

    locked: str  # base64 of nonce and AES-256-GCM
