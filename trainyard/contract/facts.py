"""Facts about a run, as JSON: what its ranks measured and report by name, what the planner estimated, and how its time
was spent.

A script may report anything under these names, and a document of an older version lacks fields: who reads leaves out
what does not fit.
"""

from typing import Annotated, Literal, NamedTuple, TypedDict

from trainyard.contract.base import WireStruct, said

MEASURED, COMMUNICATION, TRACE, IN_MEMORY = "measured", "communication", "trace", "in-memory"
COORDINATES = "coordinates"


class MeasuredFacts(WireStruct, kw_only=True):
    """Measurements of a rank's steps: means over the last ``num_steps``, behind ``step``."""

    step: int = 0
    num_steps: int = 0
    step_time_s: float | None = None
    phases: dict[str, float] = {}  # seconds of a step by phase
    memory_bytes: float | None = None
    peak_memory_bytes: float | None = None
    sent_bytes: float | None = None
    rows: int | None = None
    flops_per_step: float | None = None
    mfu: float | None = None


class TraceFacts(WireStruct, kw_only=True, omit_defaults=True):
    """Outcome of a trace on a rank: its file in the run's output, or why there is none."""

    id: str = ""
    first: int = 0
    last: int = 0
    file: str = ""
    bytes: int = 0
    why: str = ""


class LinkFacts(WireStruct, rename={"first": "from", "second": "to"}):
    """The connection between two nodes."""

    first: str
    second: str
    latency_s: float
    bytes_per_s: float


class TransferPoint(NamedTuple):
    """An operation on a message of that size."""

    size_bytes: float
    seconds: float
    bytes_per_s: float


class CommunicationFacts(WireStruct, kw_only=True):
    """Results of a communication benchmark. Of many links some are listed, the slowest first."""

    world_size: int = 0
    nodes: list[str] = []
    operations: dict[str, list[TransferPoint]] = {}
    num_links: int = 0
    links: list[LinkFacts] = []


class CoordinateFacts(WireStruct, kw_only=True):
    """The coordinate check of muP: by how much activations changed in some steps, by name, at each of the widths."""

    base_width: int = 0  # of the models that were compared
    optimizer: str = ""
    steps: int = 0
    widths: list[int] = []
    changes: dict[str, list[float]] = {}
    powers: dict[str, float] = {}  # of the width, with which the changes grow


# Estimates of the planner. A run keeps the document of its submission.

MemoryPart = Literal["base", "parameters", "gradients", "optimizer", "activations", "copies", "margin"]
StepPart = Literal["compute", "communication", "bubble", "optimizer"]


class MemoryDocument(TypedDict, total=False):
    """Bytes of one rank by part, their sum, and the range in which it lies."""

    base: float
    parameters: float
    gradients: float
    optimizer: float
    activations: float
    copies: float
    margin: float
    total: float
    low: float
    high: float


class StepTimeDocument(TypedDict, total=False):
    """Seconds of one step by part, their sum, and the range in which it lies."""

    compute: float
    communication: float
    bubble: float
    optimizer: float
    total: float
    low: float
    high: float


class EstimateDocument(TypedDict, total=False):
    """See ``Estimate`` of trainyard.planner for the meaning of each field."""

    memory: list[MemoryDocument]  # by rank
    memory_limits: list[float]
    fit: Literal["fits", "may not fit", "does not fit"]
    step_time: StepTimeDocument
    sent_bytes: float
    bubble: float
    num_parameters: int
    flops_per_step: float
    unit: str
    units_per_second: float
    warnings: list[str]
    is_measured: bool


class ProposalDocument(TypedDict):
    changes: dict[str, str | int | float | bool | None]  # by dotted path in the spec, as overrides take it
    estimate: EstimateDocument
    sentence: str


class TimeDocument(TypedDict):
    """Time of a run, or of many, by use, in seconds; the parts add up to ``total_s``."""

    queued_s: float
    starting_s: Annotated[float, said("from the placing to the first step")]
    productive_s: Annotated[float, said("steps that are trained once")]
    recomputed_s: Annotated[float, said("steps that are trained again after a restart")]
    checkpoint_s: Annotated[float, said("steps waited for a checkpoint to be saved")]
    detection_s: Annotated[float, said("from a failure, or the end of the ranks, until it is known")]
    restart_s: Annotated[float, said("from then to the first step of the next attempt")]
    paused_s: float
    total_s: float
    goodput: Annotated[float | None, said("`productive_s / total_s`; None before any time has passed")]


class InMemoryFacts(WireStruct, kw_only=True):
    """The newest state of a run that is whole in the memory of its nodes."""

    step: int = 0
    fence: int = 0  # of the attempt that took it
    bytes: int = 0  # of one copy
    every_steps: int | None = None  # None: not decided yet
    stall_s: float | None = None  # for which training stood still
    num_copies: int = 1  # nodes on which each part lies
    nodes: list[str] = []  # names: each keeps what its own ranks took
