"""The forward and backward passes of one optimizer step."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist

from workers.training.data.batches.order import Batch
from workers.training.measuring.phases import BACKWARD, COMMUNICATION, DATA, FORWARD
from workers.training.mesh import BatchShare
from workers.training.recipes import Task

if TYPE_CHECKING:  # it imports this module
    from workers.training.assembly import Assembly

StartSum = Callable[[torch.Tensor], "dist.Work | None"]  # sums in place over all ranks; the caller waits


@dataclass(slots=True)
class Passed:
    """The result of a step's passes beside the gradients. ``loss`` is valid once ``wait`` has returned: the mean over
    the global batch, a scalar on the device, the same on every rank."""

    loss: torch.Tensor
    summing: dist.Work | None
    data_time_s: float

    def wait(self) -> torch.Tensor:
        if self.summing is not None:
            self.summing.wait()
            self.summing = None
        return self.loss


class Passes(Protocol):
    """``PlainPasses`` for a whole model on each rank, another class for a pipeline of stages."""

    def train(self, step: int) -> Passed:
        """Run all micro-batches of ``step`` forward and backward; leave in ``.grad`` the gradients of the global
        batch's mean loss (times the precision's scale), reduced over all ranks that share them."""

    def evaluate(self, rows: slice) -> torch.Tensor:
        """Return this rank's part of ``summed`` for these validation rows. The parts of the ranks of a stage and tensor
        group add up to one."""

    def settle(self) -> None:
        """Run the discarded passes after which a step sums in the same order as any later one; leaves gradients."""


def summed(task: Task, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the sums over rows of the loss and of each of the task's measures: one vector, float64, on the device."""
    loss = task.criterion(outputs, targets).double() * len(targets)
    return torch.cat((loss[None], task.measure(outputs, targets)))


class PlainPasses:
    """Every rank holds the whole model, or its shards: ``accumulate`` passes, of which the last reduces."""

    def __init__(self, assembly: "Assembly") -> None:
        (model,) = assembly.parts
        self._task, self._precision, self._num_throwaways = assembly.task, assembly.precision, assembly.num_throwaways
        self._without_reduction, self._start_sum = assembly.without_reduction, assembly.start_sum
        self._after_backward = assembly.after_backward
        self._replica = model if assembly.replica is None else assembly.replica
        self._feed, self._share, self._phases = assembly.feed, assembly.share, assembly.measures.phases
        self._num_alike = assembly.mesh.num_alike  # tensor-parallel ranks, which compute the same loss

    def train(self, step: int) -> Passed:
        share = self._share
        data_time_s = 0.0
        total: torch.Tensor | None = None
        summing = None
        for index in range(share.accumulate):
            is_last = index == share.accumulate - 1
            self._phases.switch(DATA)
            started = time.perf_counter()
            batch = self._feed.batch(step, index)
            data_time_s += time.perf_counter() - started
            self._phases.switch(FORWARD)
            # Gradients are summed over ranks once a step, in the last backward.
            with nullcontext() if is_last else self._without_reduction():
                loss = self._loss(batch)
                if share.accumulate > 1:
                    loss = loss / share.accumulate
                if share.weight != 1:  # so that the mean over ranks is that over rows
                    loss = loss * share.weight
                part = loss.detach() / (share.num_parts * self._num_alike)
                total = part if total is None else total + part
                if is_last:
                    # Started before backward, so that it is sent while backward computes.
                    summing = self._start_sum(total)
                self._phases.switch(BACKWARD)
                self._backward(loss)
        self._phases.switch(COMMUNICATION)
        for reduce in self._after_backward:
            reduce()
        assert total is not None
        return Passed(total, summing, data_time_s)

    def _loss(self, batch: Batch) -> torch.Tensor:
        with self._precision.autocast():
            return self._task.loss(self._replica, batch)

    def _backward(self, loss: torch.Tensor) -> None:
        """Run backward. After the last gradient DDP waits for the other ranks in C++. Autograd runs our callback,
        queued at the start, before the one that DDP queues when its last bucket is full."""
        scaled = self._precision.scale(loss)
        queue = torch.autograd.Variable._execution_engine.queue_callback
        scaled.register_hook(lambda _: queue(self._end_backward))  # type: ignore[no-untyped-call]
        scaled.backward()  # type: ignore[no-untyped-call]

    def _end_backward(self) -> None:
        self._phases.switch(COMMUNICATION)

    @torch.no_grad()
    def evaluate(self, rows: slice) -> torch.Tensor:
        inputs, targets = self._task.validation_batch(rows)
        with self._precision.autocast():
            return summed(self._task, self._replica(inputs), targets) / self._num_alike

    def settle(self) -> None:
        for _ in range(self._num_throwaways):
            self._loss(self._task.train_batch(slice(0, 1))).backward()  # type: ignore[no-untyped-call]

    def resize(self, batch_size: int, share: BatchShare) -> None:
        """Use this batch size and share from the next step on."""
        self._share = share
        self._feed.resize(batch_size, share)

    def rehearse(self) -> None:
        """Run one micro-batch forward and backward without communication; leaves gradients."""
        batch = self._feed.batch(1, 0)
        with self._without_reduction():
            self._precision.scale(self._loss(batch)).backward()  # type: ignore[no-untyped-call]
