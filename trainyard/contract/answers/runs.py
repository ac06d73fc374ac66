"""Answers of the REST API about runs."""

from typing import Annotated, NotRequired, TypedDict

from trainyard.contract.base import JsonObject, said
from trainyard.contract.facts import TimeDocument


class Reason(TypedDict):
    code: str
    sentence: str
    evidence: NotRequired[JsonObject]


class Lamp(TypedDict):
    name: NotRequired[str]
    colour: Annotated[str, said("green, amber, red or grey")]
    sentence: str


class Lamps(TypedDict):
    process: Lamp
    progress: Lamp
    telemetry: Lamp


class Trouble(TypedDict):
    code: str
    count: int
    sentence: str


class Throughput(TypedDict):
    """Medians over the newest attempt without its first tenth; None: the run does not log it."""

    value: float | None
    unit: Annotated[str, said("`tok/s` or `samples/s`")]
    mfu: Annotated[float | None, said("Model FLOPs utilisation: a share of what its devices can at best")]


class SeriesSummary(TypedDict):
    """Figures of one series that tables show; ``last`` may be the word of a value that is not finite."""

    last: float | str | None
    min: float | None
    max: float | None
    count: int


class Series(TypedDict):
    """A series in a list; ``last`` may be the word of a value that is not finite."""

    name: str
    labels: dict[str, str]
    count: int
    first_step: int | None
    last_step: int | None
    last: float | str | None
    min: Annotated[float | None, said("over finite values")]
    max: float | None


class LeftOutNode(TypedDict):
    """A node that the run is kept away from for a while."""

    node: str
    why: str
    until: str
    is_excluded: Annotated[bool, said("False: it is taken where there is no other")]


class Restarts(TypedDict):
    """Restarts of the run by its policy."""

    max: Annotated[int, said("`restarts.max` of its spec")]
    used: Annotated[int, said("restarts in a row that counted at the last failure")]
    total: Annotated[int, said("all since a person started it")]
    due_at: NotRequired[Annotated[str | None, said("when the next attempt may begin; None: none is waited for")]]
    left_out: list[LeftOutNode]
    source: NotRequired[
        Annotated[str, said("what the last restart went on from: `storage`, `the memory of` nodes; `memory`: not yet")]
    ]
    from_step: NotRequired[Annotated[int | None, said("the step of that state")]]
    steps_lost: NotRequired[Annotated[int | None, said("steps that the last restart trains again")]]


class Rewind(TypedDict):
    """A decision to go back to `to_step`, and to leave out the batches of the steps `first` to `last`."""

    to_step: int
    first: int
    last: int
    at: str
    by: Annotated[str, said("empty: a rule of `watch`")]
    rule: Annotated[str, said("the metric of that rule")]


class Run(TypedDict):
    """A run, as the terminal and the SDK read it."""

    id: str
    name: str
    project: str
    cluster: Annotated[str | None, said("None: it was logged outside of Trainyard and sent here")]
    status: str
    is_pruned: NotRequired[Annotated[bool, said("its sweep stopped it early, so it is CANCELLED")]]
    reason: Reason
    lamps: Lamps
    step: int | None
    steps: int | None
    progress: float | None
    attempt: int | None
    restarts: NotRequired[Restarts]
    created_at: str
    started_at: str | None
    ended_at: str | None
    troubles: Annotated[list[Trouble], said("what went wrong with its records on their way, worst first")]
    throughput: NotRequired[Throughput]
    time: NotRequired[Annotated[TimeDocument | None, said("None: it was logged outside of Trainyard")]]
    summary: dict[str, SeriesSummary]


class RunDocument(Run):
    """All of a run."""

    job: str | None
    parent: str | None
    tags: list[str]
    notes: str
    config: JsonObject
    priority: int
    rewinds: list[Rewind]
    created_by: str | None
    archived_at: str | None
    spec: JsonObject


class LeftFile(TypedDict):
    path: str
    size_bytes: int


class File(LeftFile):
    modified_at: str


class LeftOnNode(TypedDict):
    """Files that wait in a node's working folder."""

    node: str
    attempt: NotRequired[int]
    num_files: int
    bytes: int
    files: Annotated[list[LeftFile], said("some of them, where there are many")]
    refused: NotRequired[
        Annotated[dict[str, str], said("output files that the server did not take, and why; some of them")]
    ]
    decision: Annotated[str, said("upload, discard, or empty while nobody has decided")]


class Sending(TypedDict):
    node: str
    num_files: int
    bytes: int
    sent_bytes: int
    problem: Annotated[str, said("why what is to be sent waits")]


class FileList(TypedDict):
    """What a run has left, and what is not here yet."""

    items: list[File]
    next: NotRequired[str | None]
    left: Annotated[list[LeftOnNode], said("what waits on nodes for a decision")]
    sending: NotRequired[Annotated[list[Sending], said("nodes that have not sent all of it yet")]]


class Bundle(TypedDict):
    """Code that was packed and sent."""

    sha256: str
    size_bytes: NotRequired[int]
    files: NotRequired[list[str]]


class Traced(TypedDict):
    """Steps and ranks of a trace."""

    id: NotRequired[str]
    first_step: int
    last_step: int
    ranks: list[int]


class OpenedApp(TypedDict):
    """Address at which a browser opens an app of a run."""

    url: Annotated[str, said("opens the app in a browser, once")]
    expires_in_s: Annotated[int, said("seconds in which it has to be opened")]


def lamps_of(run: Run) -> list[tuple[str, Lamp]]:
    """Return the three lamps with their names."""
    lamps = run["lamps"]
    return [("process", lamps["process"]), ("progress", lamps["progress"]), ("telemetry", lamps["telemetry"])]
