"""Members of a population, and decisions about them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.spec.sweeps.population import CHANGEABLE_PATHS

__all__ = ["CHANGEABLE_PATHS", "Member", "MemberVerdict", "Successor", "boundary_scores"]


@dataclass(frozen=True, slots=True)
class Member:
    """A trial of the population. ``scores`` are by the step of a boundary, and greater is better."""

    number: int
    parameters: Mapping[str, Any]
    scores: Mapping[int, float] = field(default_factory=dict)
    checkpoints: frozenset[int] = frozenset()  # steps that another one can go on from
    start: int = 0  # the step behind which it began
    judged: int = 0  # the last boundary at which it was judged
    is_training: bool = True
    has_failed: bool = False  # and nobody has taken its place yet


@dataclass(frozen=True, slots=True)
class Successor:
    """The trial that takes the place of another one. ``parent`` None: it starts anew."""

    parent: int | None
    parent_step: int | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MemberVerdict:
    """Decision about trial ``number``, judged at ``step``: it goes on, or its successor takes its place."""

    number: int
    step: int
    successor: Successor | None = None


def boundary_scores(
    reports: Iterable[tuple[int, float]], *, interval: int, start: int, sign: int, reached: int
) -> dict[int, float]:
    """Return the score at each boundary: of the last report since the one before. ``sign`` is 1 where a smaller value
    is better. A boundary counts once the trial has reached it, which may be known from other series."""
    last: dict[int, tuple[int, float]] = {}
    for step, value in reports:
        if step <= start:
            continue
        reached = max(reached, step)
        boundary = -(-step // interval) * interval
        if boundary not in last or step >= last[boundary][0]:
            last[boundary] = (step, value)
    return {
        boundary: -sign * value if math.isfinite(value) else -math.inf
        for boundary, (_, value) in sorted(last.items())
        if boundary <= reached
    }
