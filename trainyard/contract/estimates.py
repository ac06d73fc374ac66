"""What the planner's answer looks like as JSON: a run keeps it, REST answers it, pages and the terminal show it.

A run keeps the document that its submission made, so older ones lack fields.
"""

from __future__ import annotations

from typing import Literal, TypedDict

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
