"""Learning rate as a pure function of the step, so that a resumed run needs no schedule state."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]

# Of the steps behind the warm-up, the share in which warmup-stable-decay falls. A tenth is enough (Hu et al. 2024,
# section 4.2); with a fifth it ends where cosine ends (Hägele et al. 2024, section 3), at a few hundred steps too.
DECAY_SHARE = 0.2

# What remains of the peak after warm-up, for a progress from 0 (first step behind it) towards 1 (never reached).
SHAPES: dict[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1.0 - progress,
    "cosine": lambda progress: 0.5 * (1.0 + math.cos(math.pi * progress)),  # Loshchilov & Hutter 2017, equation 5
    # Hu et al. 2024, equation 1: the peak, then a fall that any checkpoint from before it can make anew.
    "warmup-stable-decay": lambda progress: min(1.0, (1.0 - progress) / DECAY_SHARE),
}


def make_schedule(kind: str, *, peak: float, steps: int, warmup_steps: int) -> Schedule:
    """Return the learning rate for each optimizer step 1..steps.

    It climbs in equal parts and reaches ``peak`` at step ``warmup_steps``, then follows the shape, whose end (0 for
    all but constant) lies one step behind the last, so that no step is wasted. Raises ValueError for an unknown kind.
    """
    if kind not in SHAPES:
        raise ValueError(f"train.schedule is {kind!r}; accepted are {', '.join(SHAPES)}")
    shape = SHAPES[kind]

    def learning_rate(step: int) -> float:
        if step <= warmup_steps:
            return peak * step / warmup_steps
        return peak * shape((step - 1 - warmup_steps) / max(1, steps - warmup_steps))

    return learning_rate
