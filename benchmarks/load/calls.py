"""The cost of a log call, as a training loop feels it. Standard library only: the peers' interpreters use it too."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

METRICS = {f"train/metric_{number}": 0.1 * number for number in range(10)}
PAUSE_EVERY = 100  # a training loop does something between its calls: threads of the tracker run as they would there


class Costs(NamedTuple):
    """Microseconds a call."""

    median: float
    p99: float
    quartiles: tuple[float, float]


def costs(num_calls: int, call: Callable[[int], object]) -> Costs:
    """Call ``call(step)`` so often, and return what the calls took."""
    return summary(calls(num_calls, call))


def calls(num_calls: int, call: Callable[[int], object]) -> list[float]:
    """Call ``call(step)`` so often, and return the microseconds of each call."""
    taken = []
    for step in range(num_calls):
        started = time.perf_counter_ns()
        call(step)
        taken.append((time.perf_counter_ns() - started) / 1_000)
        if step % PAUSE_EVERY == 0:
            time.sleep(0.001)
    return taken


def summary(taken: list[float]) -> Costs:
    ordered = sorted(taken)
    at = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.25, 0.75, 0.99)]
    return Costs(statistics.median(ordered), at[2], (at[0], at[1]))
