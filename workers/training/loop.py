"""The training loop: optimiser steps 1..N, validation between them, and what both report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from workers.training import process_group
from workers.training.build import Training
from workers.training.memory import memory_bytes
from workers.training.progress import Progress
from workers.training.strategies import data_parallel

VALIDATION_TOKENS_AT_ONCE = 4096


class Metrics(Protocol):
    """Where points go: the run that ``trainyard.init`` returns."""

    def log(
        self, values: Mapping[str, float], step: int | None = None, labels: Mapping[str, str] | None = None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one optimiser step has shown. ``loss`` is the mean over the global batch; times are this rank's own."""

    loss: float
    gradient_norm: float
    learning_rate: float
    step_time_s: float
    data_time_s: float


def run_loop(training: Training, metrics: Metrics) -> nn.Module:
    """Train from step 1 to the last and return the plain model.

    A loss that is not finite is reported like any other and ends nothing.
    """
    settings = training.settings
    progress = Progress(settings.steps) if training.mesh.rank == 0 else None
    pass_throwaways(training)
    validate(training, 0, metrics, progress)
    for step in range(1, settings.steps + 1):
        result = take_step(training, step)
        report(training, step, result, metrics, progress)
        every = settings.validate_every_steps
        if step == settings.steps or (every and step % every == 0):
            validate(training, step, metrics, progress)
    return training.model


def pass_throwaways(training: Training) -> None:
    """Run the backward passes that let the strategy settle, on one row each, and leave no trace of them."""
    with kept_random_state(training.device):
        for _ in range(data_parallel.num_throwaway_passes(training.replica)):
            training.task.loss(training.replica, training.task.train_batch(1, slice(0, 1))).backward()  # type: ignore[no-untyped-call]
    training.optimizer.zero_grad()


def take_step(training: Training, step: int) -> StepResult:
    """Take one optimiser step over the global batch of ``step``."""
    settings, share = training.settings, training.share
    started = time.perf_counter()
    learning_rate = training.schedule(step)
    for group in training.optimizer.param_groups:
        group["lr"] = learning_rate
    training.optimizer.zero_grad()
    data_time_s = 0.0
    loss_sum = torch.zeros((), device=training.device)
    summing = None
    for index in range(share.accumulate):
        is_last = index == share.accumulate - 1
        data_started = time.perf_counter()
        batch = training.task.train_batch(step, share.rows(index))
        data_time_s += time.perf_counter() - data_started
        # Gradients are summed over ranks once a step, in the last backward.
        with nullcontext() if is_last else data_parallel.without_reduction(training.replica):
            loss = training.task.loss(training.replica, batch) / share.accumulate
            loss_sum += loss.detach()
            if is_last:
                # Started before backward, so that it travels while backward computes.
                summing = process_group.all_reduce_sum(loss_sum)
            loss.backward()  # type: ignore[no-untyped-call]
    norm = clip(training.model, settings.gradient_clip)
    training.optimizer.step()
    if summing is not None:
        summing.wait()
    # One read from the device for both numbers: it is the only point of a step that waits for a GPU.
    loss_value, norm_value = torch.stack((loss_sum / share.num_parts, norm)).tolist()
    return StepResult(loss_value, norm_value, learning_rate, time.perf_counter() - started, data_time_s)


def clip(model: nn.Module, limit: float) -> torch.Tensor:
    """Scale the gradients so that their norm over all parameters is at most ``limit`` (0: leave); return the norm."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
    if limit:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), limit, norm, foreach=True)
    return norm


@torch.no_grad()
def validate(training: Training, step: int, metrics: Metrics, progress: Progress | None) -> None:
    """Report the mean loss over the validation rows, of which each rank computes a share.

    The rows are the same at every step and for every number of ranks, so that losses can be compared.
    """
    task, share = training.task, training.share
    first = task.num_validation_rows * share.part // share.num_parts
    last = task.num_validation_rows * (share.part + 1) // share.num_parts
    rows_at_once = max(share.micro, VALIDATION_TOKENS_AT_ONCE // task.tokens_per_row)
    total = torch.zeros((), dtype=torch.float64, device=training.device)
    training.model.eval()
    for start in range(first, last, rows_at_once):
        rows = slice(start, min(start + rows_at_once, last))
        # The plain model: a strategy's hooks have nothing to do without gradients.
        total += task.loss(training.model, task.validation_batch(rows)) * (rows.stop - rows.start)
    training.model.train()
    summing = process_group.all_reduce_sum(total)
    if summing is not None:
        summing.wait()
    loss = total.item() / task.num_validation_rows
    if progress is not None:
        metrics.log({"val/loss": loss}, step=step)
        progress.validated(step, loss)


def report(training: Training, step: int, result: StepResult, metrics: Metrics, progress: Progress | None) -> None:
    """Log one step: what all ranks share from rank 0, what is a rank's own from each."""
    own = {"rank/memory_bytes": memory_bytes(training.device), "rank/data_time_s": result.data_time_s}
    metrics.log(own, step=step, labels={"rank": str(training.mesh.rank)})
    if progress is None:
        return
    tokens_per_second = training.settings.batch_size * training.task.tokens_per_row / result.step_time_s
    metrics.log(
        {
            "train/loss": result.loss,
            "train/gradient_norm": result.gradient_norm,
            "train/learning_rate": result.learning_rate,
            "train/step_time_s": result.step_time_s,
            "train/tokens_per_second": tokens_per_second,
        },
        step=step,
    )
    progress.stepped(step, result.loss, result.learning_rate, tokens_per_second)


@contextmanager
def kept_random_state(device: torch.device) -> Iterator[None]:
    """Give torch's generators back the state they had."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
