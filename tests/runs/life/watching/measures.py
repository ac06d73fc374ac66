"""Made-up measures of ranks: noise, hiccups and bursts as machines have them, from a seed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from runs.life.watching.scores import OWN, WAITING, RankMeasurements

SHARES = {"data": 0.05, "forward": 0.3, "backward": 0.55, "optimizer": 0.1}
Times = NDArray[np.float64]


def noisy(seed: int, num_ranks: int, num_steps: int) -> dict[str, Times]:
    """Return seconds by phase of ranks that are equally fast: each step has noise, some are much longer, the machines
    slow down and recover together, and now and then a rank is slow for some steps."""
    random = np.random.default_rng(seed)
    common = 1 + 0.3 * np.abs(np.sin(np.arange(num_steps) / random.uniform(20, 200) + random.uniform(0, 6)))
    times = {}
    for name, share in SHARES.items():
        spread = random.uniform(0.02, 0.25)
        noise = random.lognormal(0, spread, (num_ranks, num_steps))
        times[name] = 0.01 * share * common * noise
    for _ in range(num_steps // 40):  # a hiccup: one rank, some steps
        rank, start = random.integers(num_ranks), random.integers(num_steps)
        length = random.integers(1, 20)
        times["forward"][rank, start : start + length] *= random.uniform(1.5, 6)
    long = random.random((num_ranks, num_steps)) < 0.01  # a collector, a page fault
    times["backward"][long] *= random.uniform(3, 20)
    return times


def slowed(times: Mapping[str, Times], rank: int, phase: str, factor: float, since: int = 0) -> dict[str, Times]:
    """Return the times with one rank slower in one phase."""
    changed = {name: values.copy() for name, values in times.items()}
    changed[phase][rank, since:] *= factor
    return changed


def measured(times: Mapping[str, Times], first_step: int = 11) -> RankMeasurements:
    """Return them as ranks would measure them: who is ready waits for the last."""
    own = np.sum([times[name] for name in OWN], axis=0)
    waiting = own.max(axis=0) - own + 0.0005
    steps = np.arange(first_step, first_step + own.shape[1], dtype=np.int64)
    return RankMeasurements(list(range(own.shape[0])), steps, {**times, WAITING: waiting})
