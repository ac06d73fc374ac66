"""The learning-rate range test (Smith 2017, section 3.3): a few steps with a rate that grows from far too small to far
too large, and the rate at which the loss fell fastest.

The steps are of a training built like the real one, which is thrown away: the real one starts from untouched weights,
random state, data and optimizer. All ranks see the same losses, so all take the same rate.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from trainyard.spec import RecipeSpec
from trainyard.spec.sections.train import Train
from workers.training.build import build
from workers.training.loop import kept_random_state, settle, take_step
from workers.training.measuring.memory import release
from workers.training.mesh import Mesh
from workers.training.metrics import Metrics
from workers.training.recipes import Task

LOWEST, HIGHEST = 1e-6, 1.0
NUM_STEPS = 100
DIVERGED = 4.0  # times the best smoothed loss: nothing is to be learnt from larger rates
SMOOTHING = 0.8  # of each step's loss over those before
LEAST_STEPS = 10  # fewer say nothing: the first rate was too large already
EDGE = 3  # steps at the start whose slope is noise


class Tried(NamedTuple):
    rate: float
    loss: float


def find_learning_rate(
    spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device, metrics: Metrics
) -> Train:
    """Return ``settings`` with the learning rate that ``train.find_learning_rate`` asks for. A collective."""
    if settings.find_learning_rate == "none":
        return settings
    with kept_random_state(device):
        tried = range_test(spec, task, settings, mesh, device, metrics)
        release(device)
    rate = suggested(tried)
    if mesh.rank == 0:
        report(settings.learning_rate, rate, tried, metrics)
    return settings if rate is None else settings.model_copy(update={"learning_rate": rate})


def range_test(
    spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device, metrics: Metrics
) -> list[Tried]:
    """Train with one rate after the other until the loss is many times its best; return what was tried."""
    every_step = spec.parallel.synchronization.model_copy(update={"kind": "every-step"})
    plain = {"compression": "none", "balance": "none", "synchronization": every_step}
    parallel = spec.parallel.model_copy(update=plain)
    training = build(spec.model_copy(update={"parallel": parallel, "changes": []}), task, settings, mesh, device)
    settle(training)
    tried: list[Tried] = []
    for step, rate in enumerate(rates(), start=1):
        training.schedule = lambda _, rate=rate: rate  # type: ignore[misc]  # of this very step
        tried.append(Tried(rate, take_step(training, step).loss))
        if mesh.rank == 0:
            metrics.log({"find/tried_learning_rate": rate, "find/loss": tried[-1].loss}, step=step)
        if has_diverged(tried):
            break
    training.feed.close()
    return tried


def rates() -> list[float]:
    """Return the rates, each larger than the one before by the same factor."""
    factor = (HIGHEST / LOWEST) ** (1 / (NUM_STEPS - 1))
    return [LOWEST * factor**place for place in range(NUM_STEPS)]


def smoothed(losses: Sequence[float]) -> list[float]:
    """Return an exponential average of the losses, without its bias towards 0 at the start."""
    found, average = [], 0.0
    for place, loss in enumerate(losses, start=1):
        average = SMOOTHING * average + (1 - SMOOTHING) * loss
        found.append(average / (1 - SMOOTHING**place))
    return found


def has_diverged(tried: Sequence[Tried]) -> bool:
    losses = [one.loss for one in tried]
    if not math.isfinite(losses[-1]):
        return True
    even = smoothed(losses)
    return len(even) > EDGE and even[-1] > DIVERGED * min(even)


def suggested(tried: Sequence[Tried]) -> float | None:
    """Return the rate at which the smoothed loss fell fastest, before its lowest point; None where it never fell."""
    finite = [one for one in tried if math.isfinite(one.loss)]
    if len(finite) < LEAST_STEPS:
        return None
    even = smoothed([one.loss for one in finite])
    lowest = even.index(min(even))
    slopes = {place: (even[place + 1] - even[place - 1]) / 2 for place in range(EDGE, min(lowest, len(even) - 1))}
    if not slopes or min(slopes.values()) >= 0:
        return None
    best = min(slopes, key=lambda place: slopes[place])
    return float(f"{finite[best].rate:.3g}")


def report(asked: float, rate: float | None, tried: Sequence[Tried], metrics: Metrics) -> None:
    words = f"range test: {len(tried)} learning rates from {tried[0].rate:.0e} to {tried[-1].rate:.2g}"
    if rate is None:
        print(f"{words}; the loss fell with none of them, so learning rate {asked:g} stays", flush=True)
        return
    print(f"{words}; learning rate {asked:g} -> {rate:g}, where the loss fell fastest", flush=True)
    metrics.log({"find/learning_rate": rate}, step=0)
