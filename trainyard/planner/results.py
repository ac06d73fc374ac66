"""What the planner answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank by part, at the fullest moment of a step. ``copies`` are those of weights and moments that a
    strategy, or the last checkpoint, holds beside."""

    base: float
    parameters: float
    gradients: float
    optimizer: float
    activations: float
    copies: float = 0.0

    @property
    def total(self) -> float:
        return self.base + self.parameters + self.gradients + self.optimizer + self.activations + self.copies


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one optimizer step by part; the parts are those that stand one behind the other."""

    compute: float
    communication: float  # that no computing hides
    bubble: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.compute + self.communication + self.bubble + self.optimizer


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
        """Whether every rank has the memory that it needs."""
        return all(memory.total <= limit for memory, limit in zip(self.memory, self.memory_limits, strict=True))

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON, as a run keeps it."""
        document = asdict(self)
        for memory, whole in zip(document["memory"], self.memory, strict=True):
            memory["total"] = whole.total
        document["step_time"]["total"] = self.step_time.total
        document["memory_limits"] = list(self.memory_limits)
        document["memory"] = list(document["memory"])
        document["warnings"] = list(self.warnings)
        return document


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that was found: ``changes`` of the spec by dotted path, what that would be, and why in words."""

    changes: Mapping[str, Any]
    estimate: Estimate
    sentence: str

    def as_document(self) -> dict[str, Any]:
        return {"changes": dict(self.changes), "estimate": self.estimate.as_document(), "sentence": self.sentence}
