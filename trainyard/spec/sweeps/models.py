"""The document of a sweep: what varies, what counts as better, and how much may be spent on finding it."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from trainyard.contract.base import JsonObject
from trainyard.spec.values.fields import Name, Number, Part, Slug, TimeLimit, matching

MAX_TRIALS = 100_000
MAX_DIMENSIONS = 100
MAX_VALUES = 1_000
MAX_SEEDS = 20

SamplerName = Literal["tpe", "gp", "cmaes", "random", "quasi-random", "grid", "nsga2", "population"]
PrunerName = Literal["none", "median", "asha", "hyperband"]
Direction = Literal["minimize", "maximize"]
Reduction = Literal["last", "best", "area"]
Measure = Literal["steps", "time", "tokens"]
WITHOUT_HISTORY: tuple[SamplerName, ...] = ("random", "quasi-random", "grid")  # they look at no trial before


def _named(value: object) -> object:
    """Accept a name alone instead of a map with nothing but a name, and null for what is usual."""
    if value is None:
        return {}
    return {"name": value} if isinstance(value, str) else value


class Dimension(Part):
    """One field that varies: a range with ``low`` and ``high``, or a choice of ``values``. ``when`` has the values that
    other fields must have for this one to vary."""

    low: Number | None = None
    high: Number | None = None
    log: bool = False
    whole: bool = Field(default=False, alias="int")
    step: Annotated[Number, Field(gt=0)] | None = None
    values: Annotated[list[Any], Field(max_length=MAX_VALUES)] | None = None
    when: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_choice(self) -> bool:
        return self.values is not None

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest value of a range."""
        assert self.low is not None and self.high is not None, "the parser has refused a range without both"
        return self.low, self.high


class Objective(Part):
    """A metric over all ranks of a run, and which number of its curve counts."""

    metric: Annotated[str, Field(max_length=500), matching(r"(?s).*\S.*", "the name of a metric, such as val/loss")]
    direction: Direction = "minimize"
    of: Reduction = "last"

    @property
    def sign(self) -> int:
        """Values times this are better the smaller they are."""
        return 1 if self.direction == "minimize" else -1


class Budget(Part):
    """Budget of a sweep. It ends at whichever comes first; ``failures`` are trials in a row. ``ahead`` trials are
    proposed and queued before there is a place for them."""

    trials: int = Field(ge=1, le=MAX_TRIALS)
    parallel: int = Field(default=1, ge=1, le=1_000)
    ahead: int | None = Field(default=None, ge=0, le=1_000)
    time: TimeLimit = ""
    gpu_hours: Annotated[Number, Field(gt=0)] | None = None
    failures: int = Field(default=5, ge=1, le=MAX_TRIALS)


class Sampler(Part):
    """Sampler that proposes the next trial. ``startup_trials`` are random; the rest is for samplers that name it."""

    name: SamplerName = "tpe"
    startup_trials: int = Field(default=10, ge=1, le=10_000)  # tpe, gp
    population: int | None = Field(default=None, ge=2, le=1_000)  # cmaes, nsga2: trials of a generation
    size: int = Field(default=4, ge=2, le=1_000)  # population: trials that train at once
    interval: int = Field(default=100, ge=1)  # population: steps between two decisions
    quantile: Annotated[Number, Field(gt=0, le=0.5)] = 0.25
    explore: Literal["perturb", "resample", "pb2"] = "perturb"
    factors: Annotated[list[Number], Field(min_length=1, max_length=20)] = Field(default_factory=lambda: [0.8, 1.25])
    resample: Annotated[Number, Field(ge=0, le=1)] = 0.25


class Pruner(Part):
    """Pruner that stops trials early. ``min`` is the first step at which one may be, or the first second or token, as
    ``by`` says; ``factor`` is that of halving."""

    name: PrunerName = "none"
    by: Measure = "steps"
    min: int = Field(default=1, ge=1)
    max: int | None = Field(default=None, ge=1)
    factor: int = Field(default=3, ge=2, le=100)
    startup_trials: int = Field(default=5, ge=1, le=10_000)  # median: so many must have ended before


class SweepSpec(Part):
    """A search over the fields of a base spec."""

    name: Name
    project: Slug | None = None
    base: JsonObject
    space: Annotated[dict[str, Dimension], Field(max_length=MAX_DIMENSIONS)]
    objectives: Annotated[
        list[Objective],
        BeforeValidator(lambda given: [given] if isinstance(given, dict) else given),
        Field(alias="objective", min_length=1, max_length=10),
    ]
    budget: Budget
    sampler: Annotated[Sampler, BeforeValidator(_named)] = Sampler()
    pruner: Annotated[Pruner, BeforeValidator(_named)] = Pruner()
    seeds: int = Field(default=1, ge=1, le=MAX_SEEDS)
    seed: int = Field(default=0, ge=0, lt=2**31)
    warm_start: bool = False

    @property
    def is_multiple(self) -> bool:
        """Return whether it has several objectives, so that there is a front and no best trial."""
        return len(self.objectives) > 1

    @property
    def ahead(self) -> int:
        """Number of trials that wait for a place. Where a sampler learns from trials none waits unless somebody says
        so: it would learn from fewer."""
        if self.seeds > 1 or self.sampler.name == "population":
            return 0
        if self.budget.ahead is not None:
            return self.budget.ahead
        return self.budget.parallel if self.sampler.name in WITHOUT_HISTORY else 0

    @property
    def job(self) -> str:
        """The id of the job whose spec is the base; empty where the base is a spec."""
        return str(self.base["job"]) if set(self.base) == {"job"} else ""

    def as_document(self) -> JsonObject:
        """Return the document with everything filled in, ready for JSON; ``parse_sweep`` of it gives this again."""
        document: JsonObject = self.model_dump(mode="json", by_alias=True)
        if not self.is_multiple:
            document["objective"] = document["objective"][0]
        return document
