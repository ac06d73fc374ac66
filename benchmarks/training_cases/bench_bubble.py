"""How long the stages of a pipeline wait: stages that sleep a fixed time, under each schedule, beside the formula.

With ``p`` stages and ``m`` microbatches, as shares of a step's time:

- gpipe and 1f1b: (p - 1) / (m + p - 1) (Huang et al. 2019, section 2.3; Narayanan et al. 2021, section 2.2);
- interleaved with ``v`` parts on each stage: (p - 1) / (v m + p - 1) (Narayanan et al. 2021, section 2.2);
- layer-wise, one microbatch: (p - 1) / p;
- zero-bubble: where forward, gradients of inputs and gradients of weights take as long as each other, and from
  2 p - 1 microbatches on, no stage waits between its first and its last pass (Qi et al. 2023, section 3: such orders
  exist; Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", figure 4: the V of two parts a stage). As
  steps are synchronous, the slant that is left counts: the last stage waits p - 1 forward passes of one part for its
  first microbatch. Each stage works for 6 m such times: (p - 1) / (6 m + p - 1).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from benchmarks import goals
from benchmarks.ranks import on_ranks
from benchmarks.table import Row, middle, scaled, spread_of
from workers.training import group as process_group
from workers.training.data.batches.feed import Feed
from workers.training.group import RankPlace
from workers.training.measuring.phases import Phases
from workers.training.mesh import BatchShare
from workers.training.optimizing.numerics import Precision
from workers.training.strategies.pipeline import PipelinePasses, Plan
from workers.training.strategies.synchronization.protocol import no_sum

STAGES = 4
MICROBATCHES = 8
STAGE_S = 0.32  # of a forward pass; of gradients of inputs and of weights as much each. Long beside what sending takes
REPEATS = 3
LEAST = 0.8  # of the formula: below it stages have worked at once that wait for each other
SCHEDULES = {
    "gpipe": (STAGES - 1) / (MICROBATCHES + STAGES - 1),
    "1f1b": (STAGES - 1) / (MICROBATCHES + STAGES - 1),
    "interleaved": (STAGES - 1) / (2 * MICROBATCHES + STAGES - 1),
    "zero-bubble": (STAGES - 1) / (6 * MICROBATCHES + STAGES - 1),
    "layer-wise": (STAGES - 1) / STAGES,
}


class Step(NamedTuple):
    """When a rank began and ended a step, on the machine's clock, and how long it has worked between."""

    began: float
    ended: float
    worked_s: float


class Clock:
    """How long this rank has slept."""

    slept_s = 0.0


def sleep(seconds: float) -> None:
    started = time.perf_counter()
    time.sleep(seconds)
    Clock.slept_s += time.perf_counter() - started


class OfInputs(torch.autograd.Function):
    """Takes its time in the forward pass, and as long for the gradient of its input."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        sleep(ctx.seconds)
        return gradients[0].clone(), None


class OfWeights(torch.autograd.Function):
    """Takes its time for the gradient of a weight, apart from that of the input: zero-bubble puts it off."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, seconds: float) -> torch.Tensor:
        ctx.seconds = seconds
        return weight.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        sleep(ctx.seconds)
        return gradients[0].clone(), None


class Sleeper(nn.Module):
    """A part of a model: (rows, 1) -> (rows, 1)."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.before = nn.Parameter(torch.zeros(1))  # so that the first part has a gradient to hand on inside
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = OfInputs.apply(x + self.before, self.seconds)  # type: ignore[no-untyped-call]  # torch's own
        weight: torch.Tensor = OfWeights.apply(self.weight, self.seconds)  # type: ignore[no-untyped-call]
        return y + weight


class Nothing:
    """What the passes ask of a task: one row a microbatch, and any loss."""

    def train_batch(self, positions: slice | np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        number = positions.stop - positions.start if isinstance(positions, slice) else len(positions)
        return torch.zeros(number, 1), torch.zeros(number, 1)

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs - targets).square().mean()


def steps(place: RankPlace, repeats: int) -> dict[str, list[Step]]:
    """Return for each schedule what each of its steps was on this rank."""
    process_group.join(place, torch.device("cpu"))
    return {schedule: steps_of(schedule, repeats) for schedule in SCHEDULES}


def steps_of(schedule: str, repeats: int) -> list[Step]:
    plan = Plan(schedule, STAGES, 1 if schedule == "layer-wise" else MICROBATCHES, micro_rows=1)
    assert dist.group.WORLD is not None
    task: Any = Nothing()
    share = BatchShare(micro=plan.num_microbatches, accumulate=1, part=0, num_parts=1)
    passes = PipelinePasses(
        task,
        [Sleeper(STAGE_S / plan.num_chunks) for _ in range(plan.num_chunks)],
        plan,
        Feed(task, plan.num_microbatches, share),
        share,
        Precision("fp32", torch.device("cpu")),
        dist.group.WORLD,
        phases=Phases(torch.device("cpu")),
        flow_shape=lambda rows, out_of: torch.Size((rows, 1)),
        start_sum=no_sum,
    )
    found = []
    for step in range(1 + repeats):
        dist.barrier()
        Clock.slept_s, began = 0.0, time.monotonic()
        passes.train(step)
        found.append(Step(began, time.monotonic(), Clock.slept_s))
    return found[1:]  # in the first one the stages have introduced themselves


def waiting(ranks: Sequence[Step]) -> float:
    """Return the share of all ranks' time in one step in which they did not work."""
    took_s = max(step.ended for step in ranks) - min(step.began for step in ranks)
    return 1 - sum(step.worked_s for step in ranks) / (len(ranks) * took_s)


def rows() -> list[Row]:
    found = []
    ranks = on_ranks(STAGES, steps, scaled(REPEATS))
    for schedule, expected in SCHEDULES.items():
        shares = [waiting(of_ranks) for of_ranks in zip(*(rank[schedule] for rank in ranks), strict=True)]
        share = middle(shares)
        if share < LEAST * expected:
            raise AssertionError(f"{schedule}: {share:.3f} of the time waited, and the formula says {expected:.3f}")
        low, high = spread_of(shares)
        count = 1 if schedule == "layer-wise" else MICROBATCHES
        found.append(
            Row(
                f"waiting of {STAGES} stages, {schedule}, microbatches: {count}",
                100 * share,
                "%",
                100 * expected,
                "the formula",
                goal=goals.BUBBLE,
                spread=(100 * low, 100 * high),
            )
        )
    return found
