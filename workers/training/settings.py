"""The ``train`` part of a resolved spec with types. What is valid is ``trainyard.spec``'s to say, not this file's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Fields that a rank does not act on yet, and the one value that it may ignore without telling a lie.
NOT_BUILT: dict[str, Any] = {
    "parallel.compression": "none",
    "parallel.synchronization.kind": "every-step",
    "train.precision": "fp32",
    "train.activation_checkpointing": "none",
    "train.compile": False,
    "train.scale_learning_rate": "none",
    "checkpoint": None,
    "early_stopping": None,
}


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """``batch_size`` counts samples per optimiser step over all ranks; 0 in ``validate_every_steps`` means start and
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
    seed: int


def read_train(spec: Mapping[str, Any]) -> TrainSettings:
    """Return the training settings of a resolved spec."""
    train = spec["train"]
    return TrainSettings(
        steps=int(train["steps"]),
        batch_size=int(train["batch_size"]),
        accumulate=int(train.get("accumulate", 1)),
        optimizer=str(train.get("optimizer", "adamw")),
        learning_rate=float(train["learning_rate"]),
        schedule=str(train.get("schedule", "constant")),
        warmup_steps=int(train.get("warmup_steps", 0)),
        weight_decay=float(train.get("weight_decay", 0.0)),
        gradient_clip=float(train.get("gradient_clip") or 0.0),
        validate_every_steps=int(train.get("validate_every_steps") or 0),
        seed=int(train.get("seed", 0)),
    )


def refuse_unbuilt(spec: Mapping[str, Any]) -> None:
    """Raise ValueError for a field that asks for what no code here does: a rank ignores nothing in silence."""
    for path, accepted in NOT_BUILT.items():
        value: Any = spec
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and value != accepted:
            raise ValueError(f"{path} is {value!r}: this is not built yet, accepted is {accepted!r}")
