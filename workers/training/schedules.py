"""Learning rate as a pure function of the step, so that a resumed run needs no schedule state."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]

# What remains of the peak after warm-up, for a progress from 0 (first step behind it) towards 1 (never reached).
SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),  # Loshchilov & Hutter 2017, equation 5
}


def make_schedule(kind: str, *, peak: float, steps: int, warmup_steps: int) -> Schedule:
    """Return the learning rate for each optimiser step 1..steps.

    It climbs in equal parts and reaches ``peak`` at step ``warmup_steps``, then follows the shape, whose end (0 for
    linear and cosine) lies one step behind the last, so that no step is wasted. Raises ValueError for an unknown kind.
    """
    if kind not in SHAPES:
        raise ValueError(f"train.schedule is {kind!r}; accepted are {', '.join(SHAPES)}")
    shape = SHAPES[kind]

    def learning_rate(step: int) -> float:
        if step <= warmup_steps:
            return peak * step / warmup_steps
        return peak * shape((step - 1 - warmup_steps) / max(1, steps - warmup_steps))

    return learning_rate
