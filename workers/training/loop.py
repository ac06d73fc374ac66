"""The training loop: optimizer steps 1..N, validation between them, and what both report."""

import math
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from trainyard.contract.facts import MEASURED
from trainyard.grouping import grouped
from workers.progress import marker
from workers.progress.marker import VALIDATION
from workers.training.build import Training
from workers.training.keeping import DiskCheckpoints, change_for
from workers.training.measuring.measures import Progress, StepMeasures
from workers.training.measuring.memory import memory_bytes
from workers.training.measuring.phases import CHECKPOINT, OPTIMIZER
from workers.training.measuring.tracing import Tracing
from workers.training.metrics import Metrics, facts_record
from workers.training.optimizing.optimizers import set_rate
from workers.training.stopping import Stopping

EPSILON = 1e-6  # as in torch: a norm of zero divides nothing


@torch.no_grad()
def clip(parameters: Iterable[torch.nn.Parameter], limit: float, device_mesh: DeviceMesh | None = None) -> torch.Tensor:
    """Scale the gradients so that their norm over all parameters is at most ``limit`` (0: leave); return the norm, a
    scalar on the device that is the same on every rank.

    ``device_mesh`` are all ranks by their axes, and then every rank calls this: parameters may be cut into DTensors of
    any kinds and spread over stages of a pipeline. None where each rank holds the whole model.

    Each rank measures the pieces it holds, and their squares add up over all ranks in one message of one number. A
    piece that several ranks hold goes in from each of them, and so counts for one part of that many.
    """
    gradients = [_final(parameter) for parameter in parameters if parameter.grad is not None]
    pieces = [gradient.to_local() if isinstance(gradient, DTensor) else gradient for gradient in gradients]
    if device_mesh is None:
        norm = torch.nn.utils.get_total_norm(pieces, foreach=True)
    else:
        norm = _norm_over_ranks(gradients, pieces, device_mesh)
    if limit and pieces:
        torch._foreach_mul_(pieces, (limit / (norm + EPSILON)).clamp(max=1.0))
    return norm


def _norm_over_ranks(
    gradients: list[torch.Tensor], pieces: list[torch.Tensor], device_mesh: DeviceMesh
) -> torch.Tensor:
    copies = [_num_copies(gradient, device_mesh) for gradient in gradients]
    total = torch.zeros((), device=device_mesh.device_type)
    for num_copies, alike in grouped(zip(copies, pieces, strict=True)).items():
        total += torch.nn.utils.get_total_norm(alike, foreach=True).square() / num_copies
    dist.all_reduce(total)
    return total.sqrt()


def _num_copies(gradient: torch.Tensor, device_mesh: DeviceMesh) -> int:
    """Return how many ranks of the whole mesh hold this very piece: no two stages hold the same parameter, and the
    ranks of a stage hold it as often as there are more of them than different pieces."""
    num_pieces = 1
    if isinstance(gradient, DTensor):
        mesh = gradient.device_mesh
        # Not ``is_shard()``: it denies the pieces of pieces that a shard of a tensor-parallel weight is.
        cut = (axis for axis, kind in enumerate(gradient.placements) if not kind.is_replicate())
        num_pieces = math.prod(map(mesh.size, cut))
    return device_mesh.size() // device_mesh["pipeline"].size() // num_pieces


def _final(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return the gradient; where it is a sum that ranks have parts of, make the sum first: its norm is no sum."""
    gradient = parameter.grad
    assert gradient is not None
    if isinstance(gradient, DTensor) and any(placement.is_partial() for placement in gradient.placements):
        assert isinstance(parameter, DTensor)
        gradient = gradient.redistribute(placements=parameter.placements)
        parameter.grad = gradient
    return gradient


AT_ONCE = {"tokens": 4096, "samples": 64}  # as many do a CPU's threads justice, and a pass of training holds more


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of one optimizer step. ``loss`` is the mean over the global batch; times are this rank's own."""

    loss: float
    gradient_norm: float
    learning_rate: float
    step_time_s: float
    data_time_s: float
    measured: StepMeasures


@dataclass(frozen=True, slots=True)
class Stopped:
    """The training was asked to stop, and did so behind ``step``."""

    step: int
    is_saved: bool | None  # None where nothing is to be kept
    was_asked: bool = True  # this rank itself; else it stopped with one that was


def run_loop(training: Training, metrics: Metrics, checkpoints: DiskCheckpoints) -> Stopped | None:
    """Train from the step behind the restored checkpoint (from 1 without one) to the last, or to where SIGTERM ended
    it, which is returned.

    A loss that is not finite is reported like any other and ends nothing.
    """
    progress = Progress(training.settings.steps, training.task.unit) if training.mesh.rank == 0 else None
    # Before the state is restored: they must not touch it, and what they leave behind is overwritten.
    settle(training)
    first = checkpoints.restore(training) + 1
    if training.early_stopping.is_over:  # the run had ended at that step
        return None
    if first == 1:
        validate(training, 0, metrics, progress)
    stopping = Stopping(training, first)
    with stopping.listening():
        return train_steps(training, first, stopping, metrics, checkpoints, progress)


def train_steps(
    training: Training,
    first: int,
    stopping: Stopping,
    metrics: Metrics,
    checkpoints: DiskCheckpoints,
    progress: Progress | None,
) -> Stopped | None:
    """Take the steps from ``first`` on; return where ``stopping`` ended them, None where they ended by themselves."""
    settings, stopped = training.settings, None
    asked, output = os.environ.get("TRAINYARD_TRACE"), os.environ.get("TRAINYARD_OUTPUT")
    tracing = Tracing(asked, output, training.mesh.rank, training.device, metrics)
    changed = {one.behind + 1 for one in training.spec.changes}
    for step in range(first, settings.steps + 1):
        if step in changed:
            change_for(training, step)
        tracing.before(step)
        try:
            result = take_step(training, step)
        except Exception:
            if not training.is_updating:
                checkpoints.give_up(training, step - 1)
            raise
        tracing.after(step)
        is_last = step == settings.steps or training.synchronization.is_over
        is_stopped = not is_last and stopping.is_due(step)
        if is_last or is_stopped:  # first of all: what is validated is what is kept
            training.synchronization.finish()
        report(training, step, result, metrics, progress)
        rows = training.share.micro * training.share.accumulate  # of this step: the next one may have another share
        # Another share of the next batches, where ranks have found out that they are not equally fast.
        if training.balance and (share := training.balance.after_step(result.measured.phases)) is not None:
            training.take_share(share)
        every = settings.validate_every_steps
        if is_last or (every and step % every == 0):
            found = validate(training, step, metrics, progress)
            if found is not None and is_enough(training, found):
                is_last = True
                training.synchronization.finish()
                if progress is not None:
                    report_late_losses(training.synchronization.late_losses(), metrics)
                    progress.ended(step, training.early_stopping.reason())
        started = time.perf_counter()
        is_stopped = is_stopped and not is_last  # a training that has learnt enough has ended by itself
        is_last = is_last or is_stopped
        with marker.own().within(CHECKPOINT):
            checkpoints.after_step(training, step, is_last=is_last)
        report_measures(training, step, rows, time.perf_counter() - started, metrics, is_last=is_last)
        checkpoints.stepped(step)
        if is_last:
            stopped = Stopped(step, checkpoints.is_kept(step), stopping.was_asked) if is_stopped else None
            break
    tracing.close()
    if stopped is not None and progress is not None:
        progress.ended(stopped.step, "asked to stop: the training ends behind this step")
    return stopped


def settle(training: Training) -> None:
    """Run the throwaway passes and leave no trace of them."""
    with kept_random_state(training.device):
        training.passes.settle()
    training.optimizer.zero_grad()


def take_step(training: Training, step: int) -> StepResult:
    started = time.perf_counter()
    marker.own().begin_step(step)
    training.measures.begin()
    learning_rate = training.schedule(step)
    set_rate(training.optimizer, learning_rate)
    training.synchronization.begin(step)
    training.optimizer.zero_grad()
    passed = training.passes.train(step)
    training.measures.phases.switch(OPTIMIZER)
    training.precision.unscale(training.optimizer)
    norm = clip(training.trained, training.settings.gradient_clip, training.device_mesh)
    training.is_updating = True
    training.synchronization.step(step)
    # One read from the device for both numbers: it is the only point of a step that waits for a GPU.
    numbers = torch.stack((passed.wait(), norm))
    training.is_updating = False
    training.measures.phases.stop()
    loss_value, norm_value = numbers.tolist()
    step_time_s = time.perf_counter() - started
    measured = training.measures.end(step_time_s)
    training.heap.after_step()
    return StepResult(loss_value, norm_value, learning_rate, step_time_s, passed.data_time_s, measured)


def validate(training: Training, step: int, metrics: Metrics, progress: Progress | None) -> dict[str, float] | None:
    """Report what the validation rows say, and return it by the names of series; None on a rank that has no share."""
    if training.share.part >= training.num_validators:
        return None
    with marker.own().within(VALIDATION), training.synchronization.agreed():
        found = {f"val/{name}": value for name, value in validation_means(training).items()}
    if progress is not None:
        metrics.log(found, step=step)
        progress.validated(step, found)
    return found


def is_enough(training: Training, found: Mapping[str, float]) -> bool:
    """Return whether the run is to end early, which every rank that validates asks at the same step.

    Rank 0's word counts: ranks that came to different answers would wait for each other for ever. The sum of one 1 or
    none is exact in any order.
    """
    stopping = training.early_stopping
    if not stopping.patience:
        return False
    says_so = stopping.is_enough(found[stopping.metric]) and training.mesh.rank == 0
    word = torch.tensor(float(says_so), device=training.device)
    if (summing := training.start_agreed_sum(word)) is not None:
        summing.wait()
    return word.item() > 0


def report(training: Training, step: int, result: StepResult, metrics: Metrics, progress: Progress | None) -> None:
    """Log one step: what all ranks share from rank 0, what is a rank's own from each."""
    own = {"rank/memory_bytes": memory_bytes(training.device), "rank/data_time_s": result.data_time_s}
    own.update(training.measures.own(result.measured))
    if training.balance is not None:
        own["rank/rows"] = training.share.micro * training.share.accumulate
    own.update(training.synchronization.measured())  # a strategy that counts what it sends knows better
    shared = {"train/loss": result.loss}
    if (late := training.synchronization.late_losses()) is not None:
        shared, own["rank/loss"] = {}, result.loss
    metrics.log(own, step=step, labels={"rank": str(training.mesh.rank)})
    if progress is None:
        return
    report_late_losses(late, metrics)
    task = training.task
    rate = training.settings.batch_size * task.units_per_row / result.step_time_s
    samples = training.feed.samples_before(step + 1)
    metrics.log(
        {
            **shared,
            "train/gradient_norm": result.gradient_norm,
            "train/learning_rate": result.learning_rate,
            "train/step_time_s": result.step_time_s,
            f"train/{task.unit}_per_second": rate,
            **training.measures.shared(result.step_time_s, training.settings.batch_size),
            **({"train/tokens": samples * task.units_per_row} if task.unit == "tokens" else {}),
            "train/epoch": samples / task.num_train_rows,
        },
        step=step,
    )
    progress.stepped(step, result.loss, result.learning_rate, rate)


def report_measures(
    training: Training, step: int, rows: int, stall_s: float, metrics: Metrics, *, is_last: bool
) -> None:
    """Log how long the checkpoint of ``step`` delayed this rank, and report its measures now and then."""
    if stalled := training.measures.kept(0.0 if is_last else stall_s):  # nothing waits for what the last one writes
        metrics.log(stalled, step=step, labels={"rank": str(training.mesh.rank)})
    if facts := training.measures.facts(step, rows=rows, is_last=is_last):
        metrics.report(facts_record(MEASURED, facts))


def report_late_losses(late: Mapping[int, float] | None, metrics: Metrics) -> None:
    """Log the losses of global batches that have become known behind their steps."""
    for step, loss in (late or {}).items():
        metrics.log({"train/loss": loss}, step=step)


def kept_random_state(device: torch.device) -> AbstractContextManager[None]:
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


# Validation: how good the model is on rows that it never learns from.


def validation_means(training: Training) -> dict[str, float]:
    """Return the means of the loss and of the task's measures over the validation rows, by name, of which each rank
    computes a share.

    The rows are the same at every step and for every number of ranks, so that the means can be compared.
    """
    task, share, num_parts = training.task, training.share, training.num_validators
    first = task.num_validation_rows * share.part // num_parts
    last = task.num_validation_rows * (share.part + 1) // num_parts
    rows_at_once = max(share.micro, AT_ONCE[task.unit] // task.units_per_row)
    totals = torch.zeros(1 + len(task.measures), dtype=torch.float64, device=training.device)
    for part in training.parts:
        part.eval()
    # As often on every rank: to gather a shard's weights takes all that have some, rows left or not.
    longest = -(-task.num_validation_rows // num_parts)
    for start in range(first, first + longest, rows_at_once):
        if start < last:
            totals += training.passes.evaluate(slice(start, min(start + rows_at_once, last)))
        elif training.mesh.shard > 1:
            training.passes.evaluate(slice(0, 1))
    for part in training.parts:
        part.train()
    if (summing := training.start_agreed_sum(totals)) is not None:
        summing.wait()
    return dict(zip(("loss", *task.measures), (totals / task.num_validation_rows).tolist(), strict=True))
