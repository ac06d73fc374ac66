"""Answers of the planner."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar, cast

from trainyard.contract.facts import EstimateDocument, ProposalDocument

Changes = Mapping[str, str | int | float | bool | None]  # by dotted path in the spec

MEMORY_RANGE = 0.15  # that a rank may hold less or more; docs/decisions/planner.md has how often that was so
TIME_RANGE = 0.25  # that a step may take less or more


class Fit(StrEnum):
    """Position of a range beside a limit."""

    FITS = "fits"
    MAY_NOT_FIT = "may not fit"
    DOES_NOT_FIT = "does not fit"


class Parts:
    """What is the sum of its parts, and the range that it lies in: it may be less or more by a share of itself."""

    __slots__: tuple[str, ...] = ()
    off: ClassVar[float]

    @property
    def total(self) -> float:
        found: float = sum(getattr(self, part) for part in self.__slots__)
        return found

    @property
    def low(self) -> float:
        return (1 - self.off) * self.total

    @property
    def high(self) -> float:
        return (1 + self.off) * self.total


@dataclass(frozen=True, slots=True)
class Memory(Parts):
    """Bytes of one rank by part, at the fullest moment of a step. ``copies`` are those of weights and moments that a
    strategy, or the last checkpoint, holds beside; ``margin`` is what the allocator needs beside all parts."""

    off = MEMORY_RANGE
    base: float
    parameters: float
    gradients: float
    optimizer: float
    activations: float
    copies: float = 0.0
    margin: float = 0.0

    def fit(self, limit: float) -> Fit:
        """Return how it stands beside the memory that there is."""
        return Fit.FITS if self.high <= limit else Fit.MAY_NOT_FIT if self.low <= limit else Fit.DOES_NOT_FIT


@dataclass(frozen=True, slots=True)
class StepTime(Parts):
    """Seconds of one optimizer step by part; the parts are those that stand one behind the other."""

    off = TIME_RANGE
    compute: float
    communication: float  # that no computing hides
    bubble: float
    optimizer: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """``memory`` is by rank; ``memory_limits`` by rank what its node has for it. ``bubble`` is a share of the step."""

    memory: tuple[Memory, ...]
    memory_limits: tuple[float, ...]
    step_time: StepTime
    sent_bytes: float  # by the rank that sends most, in a step
    bubble: float
    num_parameters: int
    flops_per_step: float  # of the model, forward and backward, over all ranks: nothing that is computed twice
    unit: str
    units_per_second: float
    warnings: tuple[str, ...]
    is_measured: bool  # from rates that were measured on these nodes

    @property
    def fits(self) -> bool:
        """Return whether every rank has the memory that it may need."""
        return self.fit is Fit.FITS

    @property
    def fit(self) -> Fit:
        """Return how the rank stands that has least to spare."""
        found = {memory.fit(limit) for memory, limit in zip(self.memory, self.memory_limits, strict=True)}
        return next(one for one in reversed(Fit) if one in found or one is Fit.FITS)

    def as_document(self) -> EstimateDocument:
        """Return it as JSON, as a run keeps it: ``low`` to ``high`` is the range, ``total`` its middle."""
        parts: list[Memory | StepTime] = [*self.memory, self.step_time]
        *memory, time = [asdict(one) | {"total": one.total, "low": one.low, "high": one.high} for one in parts]
        lists = {"memory": memory, "memory_limits": list(self.memory_limits), "warnings": list(self.warnings)}
        return cast(EstimateDocument, {**asdict(self), **lists, "step_time": time, "fit": self.fit.value})


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that was found: ``changes`` of the spec by dotted path, what that would be, and why in words."""

    changes: Changes
    estimate: Estimate
    sentence: str

    def as_document(self) -> ProposalDocument:
        return {"changes": dict(self.changes), "estimate": self.estimate.as_document(), "sentence": self.sentence}
