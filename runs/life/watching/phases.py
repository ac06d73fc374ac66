"""The phases of a step that each rank logs, and the measures that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# The values of `workers.training.measuring.phases`.
OWN = ("data", "forward", "backward", "optimizer")  # what a rank does before it waits for others
WAITING = "communication"
CHECKPOINT = "checkpoint"  # between two steps

# A measure, and the phases whose sum it is.
MEASURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "own": OWN,
        "step": (*OWN, WAITING),
        "wait": (WAITING,),
        **{name: (name,) for name in OWN},
        CHECKPOINT: (CHECKPOINT,),
    }
)
# What a measure is called on the page.
LABELS: Mapping[str, str] = MappingProxyType(
    {
        "own": "Before collectives (own work)",
        "step": "Whole step",
        "wait": "Waiting in collectives",
        "data": "Data",
        "forward": "Forward",
        "backward": "Backward",
        "optimizer": "Optimizer",
        "checkpoint": "Checkpoint",
    }
)


def series_of(phase: str) -> str:
    """Return the name of the series with the seconds of a phase."""
    return f"rank/phase/{phase}_s"
