"""Other answers of the REST API, as far as the SDK and the terminal read them; the rest are in the contract.

Fields that are not named here are ignored, and kept for ``--json``: an older client works with a newer server. What is
``NotRequired`` came with a later version, so a newer client works with an older server.
"""

from typing import Generic, NotRequired, TypedDict, TypeVar

from trainyard.contract.answers import people as data_answers
from trainyard.contract.answers import runs as run_answers
from trainyard.contract.base import JsonObject
from trainyard.contract.facts import EstimateDocument, ProposalDocument
from trainyard.contract.inspections import DatasetFacts

T = TypeVar("T")


class Page(TypedDict, Generic[T]):
    """One page of a list; ``next`` is the cursor of the page behind it."""

    items: list[T]
    next: NotRequired[str | None]


class Empty(TypedDict):
    """An answer of which nothing is read."""


class Consequence(TypedDict):
    sentence: str
    node: str
    rank: int | None


AttemptCause = TypedDict(
    "AttemptCause", {"class": str, "sentence": str, "node": str, "rank": int | None, "consequences": list[Consequence]}
)


class MediaName(TypedDict):
    name: str
    labels: dict[str, str]


class MediaStep(TypedDict):
    id: int
    kind: str
    step: int
    time: float
    meta: JsonObject


class MediaSteps(TypedDict):
    items: list[MediaStep]
    thinned: bool


class HistogramBins(TypedDict):
    edges: list[float]
    counts: list[float]


class Medium(TypedDict):
    """Data of one of a run's media: what its kind has."""

    text: NotRequired[str | None]
    histogram: NotRequired[HistogramBins | None]


class Attempt(TypedDict):
    number: int
    ended_at: str | None
    cause: NotRequired[AttemptCause | None]  # an older server has none


class Watermarks(TypedDict):
    """By process: every frame up to this one is stored."""

    watermarks: dict[str, int]


class LocalRun(Watermarks):
    run: run_answers.Run


class LogLine(TypedDict):
    rank: int
    level: str
    text: str


class FoundLine(LogLine):
    """A line that a search found; ``length`` is that of the whole text where ``text`` is cut."""

    id: str
    length: NotRequired[int | None]


class LogPage(TypedDict):
    items: list[LogLine]
    next: str | None
    cursor: str  # where to read on later, also at the end


class DatasetWithFacts(data_answers.Dataset):
    facts: DatasetFacts


class NewToken(TypedDict):
    token: str  # shown this once
    expires_at: NotRequired[str | None]


class Rates(TypedDict):
    is_measured: bool
    run: str | None  # the benchmark that measured them, where one sees it


class Plans(TypedDict):
    estimate: EstimateDocument
    proposals: list[ProposalDocument]
    nodes: list[str]
    rates: Rates


# Bodies of requests


class LocalProcess(TypedDict):
    """One process of a run that was logged outside of Trainyard. Times are Unix seconds."""

    rank: int
    host: str
    began_at: float | None
    ended_at: float | None
    error: str
    is_interrupted: bool
    is_replaced: bool


class Named(TypedDict):
    """An answer of which only that is read."""

    id: str
    name: str


class LocalRunBody(TypedDict):
    name: str
    project: str | None
    is_live: NotRequired[bool]
    script: str
    host: str
    processes: dict[str, LocalProcess]
