"""The time of a step under DDP, with all that the loop does and reports, beside a hand-written minimal DDP loop of the
same model and batches: in one process group, in blocks of 50 steps that take turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import trainyard
from benchmarks import goals
from benchmarks.ranks import gpt_spec, on_ranks
from benchmarks.table import Goal, Row, middle, scaled, spread_of
from benchmarks.training import prepared
from trainyard.contract.base import JsonObject
from trainyard.spec import RecipeSpec
from workers.training import group as process_group
from workers.training.build import Training
from workers.training.data.batches.feed import positions
from workers.training.group import RankPlace
from workers.training.loop import report, settle, take_step
from workers.training.measuring.measures import Progress
from workers.training.optimizing.optimizers import ADAM_BETAS

WORLD = 2
BLOCK = 50  # steps
PAIRS = 16  # blocks of ours, and as many of the other loop's
WARM_STEPS = 10
RESAMPLES = 2_000
MODELS: dict[str, tuple[dict[str, Any], Goal | None]] = {
    "hello-gpt": ({}, goals.STEP),
    # A step of few milliseconds, of which what the loop adds is the larger share.
    "2 layers of width 64, batch of 8": ({"model": {"layers": 2, "width": 64, "context": 64}, "batch_size": 8}, None),
}
Blocks = list[list[float]]  # seconds of each step, by block


class Times(NamedTuple):
    ours: Blocks
    theirs: Blocks


def rows() -> list[Row]:
    return [row for name, (changes, goal) in MODELS.items() for row in rows_of(name, changes, goal)]


def rows_of(name: str, changes: JsonObject, goal: Goal | None) -> list[Row]:
    num_pairs = scaled(PAIRS, least=2)
    num_steps = WARM_STEPS + (num_pairs + 1) * BLOCK
    spec = gpt_spec(WORLD, **{"steps": num_steps, **changes})
    times: Times = on_ranks(WORLD, rank_times, spec, num_pairs)[0]
    ours, theirs = ([middle(block) * 1000 for block in blocks] for blocks in times)
    low, ratio, high = interval(times)
    what = f"step under DDP, {WORLD} ranks, {name}"
    against = "a minimal DDP loop"
    return [
        Row(f"{what}: median", middle(ours), "ms", middle(theirs), against, spread=spread_of(ours)),
        Row(f"{what}: ours / theirs, upper end of 95 %", high, "times", 1.0, against, goal=goal, spread=(low, high),
            others={"ratio of the medians": ratio}, note=f"{num_pairs} pairs of blocks of {BLOCK} steps"),
    ]  # fmt: skip


def interval(times: Times) -> tuple[float, float, float]:
    """Return the ratio of the median steps, between the ends of its 95 % interval: a bootstrap over pairs of blocks
    (Efron & Tibshirani 1993, chapter 13), since steps beside each other are slow together."""
    ours, theirs = (np.array(blocks) for blocks in times)
    choices = np.random.default_rng(0).integers(len(ours), size=(RESAMPLES, len(ours)))
    ratios = [np.median(ours[choice]) / np.median(theirs[choice]) for choice in choices]
    low, high = np.percentile(ratios, (2.5, 97.5))
    return float(low), float(np.median(ours) / np.median(theirs)), float(high)


def rank_times(place: RankPlace, spec: RecipeSpec, num_pairs: int) -> Times:
    """In a rank: let the two loops take turns, each going first as often as the other."""
    process_group.join(place, torch.device("cpu"))
    training = prepared(spec, place)
    loops = our_step(training), minimal_step(training)
    times = Times([], [])
    for loop in loops:
        block(loop, 1, WARM_STEPS)
    for pair in range(num_pairs):
        first = WARM_STEPS + 1 + pair * BLOCK
        for which in (0, 1) if pair % 2 == 0 else (1, 0):
            times[which].append(block(loops[which], first, BLOCK))
    return times


def block(take: Callable[[int], None], first: int, num_steps: int) -> list[float]:
    dist.barrier()
    seconds = []
    for step in range(first, first + num_steps):
        started = time.perf_counter()
        take(step)
        seconds.append(time.perf_counter() - started)
    return seconds


def our_step(training: Training) -> Callable[[int], None]:
    """What ``run_loop`` does in a step without validation or checkpoint, with points going to a spool."""
    metrics = trainyard.init()
    progress = Progress(training.settings.steps, training.task.unit) if training.mesh.rank == 0 else None
    settle(training)

    def take(step: int) -> None:
        report(training, step, take_step(training, step), metrics, progress)

    return take


def minimal_step(training: Training) -> Callable[[int], None]:
    """What one writes who wants no more than to train: no loss is read, nothing is logged."""
    task, settings, share = training.task, training.settings, training.share
    torch.manual_seed(settings.seed)
    model = task.make_model()
    replica = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=ADAM_BETAS, fused=True)

    def take(step: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = training.schedule(step)
        optimizer.zero_grad()
        batch = task.train_batch(positions((step - 1) * settings.batch_size, share, 0))
        task.loss(replica, batch).backward()  # type: ignore[no-untyped-call]  # torch's own
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
        optimizer.step()

    return take
