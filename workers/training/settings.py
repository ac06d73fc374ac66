"""The ``train`` part of a resolved spec with types. What is valid is ``trainyard.spec``'s to say, not this file's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """``batch_size`` counts samples per optimizer step over all ranks; 0 in ``validate_every_steps`` means start and
    end only; 0 in ``gradient_clip`` means that gradients are measured and left alone."""

    steps: int
    batch_size: int
    accumulate: int
    optimizer: str
    learning_rate: float
    schedule: str
    warmup_steps: int
    weight_decay: float
    gradient_clip: float
    validate_every_steps: int
    find_batch_size: str
    scale_learning_rate: str
    precision: str
    activation_checkpointing: str
    compile: bool
    seed: int


def read_train(spec: Mapping[str, Any]) -> TrainSettings:
    """Return the training settings of a resolved spec, in which every field is there."""
    return TrainSettings(**{field.name: spec["train"][field.name] for field in fields(TrainSettings)})
