"""The batch size by the gradient noise scale (McCandlish et al. 2018): about as many samples as make the noise of the
gradient as large as the gradient itself. A smaller batch wastes steps, a larger one wastes samples.

It is measured in the first steps of a training built like the real one, which is thrown away (section 2.2 and appendix
A.1): the norms of gradients over a small and over a large batch give both the gradient's and the noise's size.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist

from trainyard.spec import RecipeSpec
from trainyard.spec.sections.train import Train
from workers.training.build import Training, build
from workers.training.loop import kept_random_state, settle, take_step
from workers.training.mesh import Mesh
from workers.training.metrics import Metrics
from workers.training.recipes import Task

ROUNDS = 6
STEPS_BETWEEN = 10  # the scale at the very start says little: it grows as the loss falls
LEAST_SMALL = 8  # small batches in a large one
MOST_GROWTH = 64  # times the batch that was asked for


class Norms(NamedTuple):
    """Squared norms of the mean gradient over ``small`` samples (a mean over several such batches) and ``large``."""

    small: int
    large: int
    of_small: float
    of_large: float

    @property
    def gradient(self) -> float:
        """An unbiased estimate of the squared norm of the true gradient (equation A.3)."""
        return (self.large * self.of_large - self.small * self.of_small) / (self.large - self.small)

    @property
    def noise(self) -> float:
        """…and of the trace of the covariance of a sample's gradient."""
        return (self.of_small - self.of_large) / (1 / self.small - 1 / self.large)


def noise_scale(rounds: Sequence[Norms]) -> float | None:
    """Return the simple noise scale over all rounds, in samples: the ratio of means, since a mean of ratios is biased.
    None where the gradient cannot be told from its noise."""
    gradient = sum(one.gradient for one in rounds) / len(rounds)
    noise = sum(one.noise for one in rounds) / len(rounds)
    if not (math.isfinite(gradient) and math.isfinite(noise)) or gradient <= 0 or noise < 0:
        return None
    return noise / gradient


def batch_for(scale: float | None, asked: int, rows_a_step: int) -> int:
    """Return the batch nearest to the scale that divides among ranks and passes; the one asked for without a scale."""
    if scale is None:
        return asked
    return max(1, round(min(max(scale, 1.0), asked * MOST_GROWTH) / rows_a_step)) * rows_a_step


def find_by_noise(
    spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device, metrics: Metrics
) -> int:
    """Return the batch size for ``train.find_batch_size: noise-scale``. A collective."""
    with kept_random_state(device):
        rounds = measured(spec, task, settings, mesh, device)
    scale = noise_scale(rounds)
    found = batch_for(scale, settings.batch_size, settings.accumulate * mesh.num_batch_parts)
    if mesh.rank == 0:
        for place, one in enumerate(rounds):
            if (own := noise_scale([one])) is not None:
                metrics.log({"find/noise_scale": own}, step=place * STEPS_BETWEEN)
        words = "cannot be told from its noise" if scale is None else f"is as large as its noise at {scale:.0f} samples"
        print(f"noise scale: the gradient {words}", flush=True)
    return found


def measured(spec: RecipeSpec, task: Task, settings: Train, mesh: Mesh, device: torch.device) -> list[Norms]:
    training = build(spec.model_copy(update={"changes": []}), task, settings, mesh, device)
    settle(training)
    rounds, step = [], 1
    for _ in range(ROUNDS):
        rounds.append(norms(training, step))
        for _ in range(STEPS_BETWEEN):
            take_step(training, min(step, settings.steps))
            step += 1
    training.feed.close()
    training.optimizer.zero_grad()
    return rounds


def norms(training: Training, first: int) -> Norms:
    """Return the norms over the batches of the steps from ``first`` on. A collective; leaves no gradients."""
    (model,) = training.parts
    share = training.share
    steps = -(-LEAST_SMALL // (share.accumulate * share.num_parts))
    places = [(step, index) for step in range(first, first + steps) for index in range(share.accumulate)]
    total: list[torch.Tensor] = []
    of_small = 0.0
    for step, index in places:
        training.optimizer.zero_grad()
        loss = training.task.loss(model, training.feed.batch(step, index))
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [one.grad.detach() for one in training.trained if one.grad is not None]
        of_small += float(sum(one.double().square().sum() for one in gradients))
        total = [a + b for a, b in zip(total, gradients, strict=True)] if total else [one.clone() for one in gradients]
    training.optimizer.zero_grad()
    count = len(places) * share.num_parts
    sums = torch.tensor([of_small], dtype=torch.float64, device=training.device)
    if share.num_parts > 1:
        dist.all_reduce(sums)
        for one in total:
            dist.all_reduce(one)
    of_large = float(sum((one.double() / count).square().sum() for one in total))
    return Norms(share.micro, share.micro * count, sums.item() / count, of_large)
