"""Asynchronous training: rank 0 holds the weights, every rank pushes gradients to it and pulls weights from it.

Source: Li et al. 2014, "Scaling Distributed Machine Learning with the Parameter Server", section 2; the bound on
staleness is that of ``Clocks``.

Each gradient that arrives is one step of the server's optimizer. It is the mean over its worker's rows alone, so that
the N living workers take N steps where a synchronous training takes one: each has a learning rate of 1/N (the linear
rule of Goyal et al. 2017, from the other end).

Rank 0 also trains on its share of the batch: a run on two nodes should use both, and serving takes little of a core. It
has one thread and one group of two ranks for each other worker. After the start there is no collective of all ranks, so
a worker may be killed at any time: its thread sees the connection end, no other worker waits for it, and its rows are
missing from then on. The death of rank 0 ends the training.

Groups are gloo's: on GPUs the gradients and weights travel through the CPU's memory.
"""

import copy
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from workers.training.assembly import Assembly
from workers.training.measuring.collectives import waiting
from workers.training.optimizing.optimizers import Schedule, set_rate
from workers.training.strategies.synchronization.protocol import Flat, OwnLoss, Synchronization, parameters_of

# Longer than any step takes: a connection without any sign of its end is given up after it.
SILENCE_LIMIT = timedelta(minutes=30)
NUM_NUMBERS = 2  # up: the step and its loss; down: the lead, and whether the training is over


class ServerLost(RuntimeError):
    """Rank 0, which holds the weights, does not answer any more."""


def connect(world_size: int) -> dict[int, dist.ProcessGroup]:
    """Return the groups of two, rank 0 and another, by that other rank. A collective of all ranks, for the start.

    From here on the supervisor lets a worker die: it watches for the file that TRAINYARD_JOINED names.
    """
    groups = {rank: dist.new_group([0, rank], SILENCE_LIMIT, backend="gloo") for rank in range(1, world_size)}
    if joined := os.environ.get("TRAINYARD_JOINED"):
        Path(joined).touch()
    return groups


class ServerMessage:
    """A worker's gradient or the server's weights, with a few numbers before them: one tensor in the CPU's memory."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        num_elements = sum(tensor.numel() for tensor in tensors)
        self._bytes = torch.zeros(8 * NUM_NUMBERS + 4 * num_elements, dtype=torch.uint8)
        self._numbers = self._bytes[: 8 * NUM_NUMBERS].view(torch.float64)
        self.payload = self._bytes[8 * NUM_NUMBERS :].view(torch.float32)

    @property
    def numbers(self) -> tuple[float, float]:
        one, other = self._numbers.tolist()
        return one, other

    def send(self, to: int, group: dist.ProcessGroup, *numbers: float) -> int:
        """Return how many bytes were sent. Raises RuntimeError when the other side is gone."""
        self._numbers.copy_(torch.tensor(numbers))
        dist.send(self._bytes, to, group)
        return self._bytes.numel()

    def receive(self, source: int, group: dist.ProcessGroup) -> None:
        """Raises RuntimeError when the other side is gone."""
        dist.recv(self._bytes, source, group)


class Server:
    """The weights that count, and their optimizer: copies of those that it is given, with their state."""

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: Schedule, clocks: "Clocks") -> None:
        self.clocks = clocks
        self._lock = threading.Lock()
        self._schedule = schedule
        self._optimizer = copy.deepcopy(optimizer)
        self._weights = parameters_of(self._optimizer)
        self._flat, self._gradient = Flat(self._weights), Flat(self._weights)
        self._flat.take(self._weights)
        for weight, view, gradient in zip(self._weights, self._flat.views, self._gradient.views, strict=True):
            weight.data, weight.grad = view, gradient  # one buffer to copy from, and one to copy to

    def apply(self, rank: int, step: int, gradient: torch.Tensor, loss: float) -> None:
        """Update the weights with the gradient of ``rank`` at its ``step``."""
        with self._lock:
            self._gradient.buffer.copy_(gradient)
            set_rate(self._optimizer, self._schedule(step) / len(self.clocks.living))
            self._optimizer.step()
        self.clocks.advance(rank, step, loss)

    def copy_to(self, buffer: torch.Tensor) -> None:
        """Copy the weights as they are between two updates."""
        with self._lock:
            buffer.copy_(self._flat.buffer)

    def lend_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Give ``optimizer``, over the model's own weights, the state of the server's optimizer for checkpoints.

        The state keeps changing: in a checkpoint taken during training, a parameter's moments may be one update newer
        than another's. At the end no rank trains.
        """
        with self._lock:
            for weight, own in zip(parameters_of(optimizer), self._weights, strict=True):
                if own in self._optimizer.state:
                    optimizer.state[weight] = self._optimizer.state[own]


class Worker(Synchronization):
    """Part that all ranks share. ``optimizer`` is never stepped: it only gives the parameters and their order."""

    def __init__(self, optimizer: torch.optim.Optimizer, own_loss: OwnLoss) -> None:
        self._optimizer, self._own_loss = optimizer, own_loss
        self._parameters = parameters_of(optimizer)
        self._flat = Flat(self._parameters)
        self._lead = 0  # steps that this rank was ahead of the slowest when it went on

    def measured(self) -> Mapping[str, float]:
        return {"rank/staleness": self._lead, "rank/sent_bytes": self.newly_sent()}


class ServingWorker(Worker):
    """The ``Synchronization`` of rank 0: serves the other ranks from threads, and trains like one of them.

    ``groups`` are those of ``connect``; ``last_step`` is where every worker ends by itself.
    """

    is_agreed = True  # rank 0's weights are all there is to keep

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        own_loss: OwnLoss,
        groups: Mapping[int, dist.ProcessGroup],
        schedule: Schedule,
        *,
        last_step: int,
        max_staleness: int,
    ) -> None:
        super().__init__(optimizer, own_loss)
        self._groups, self._schedule, self._last_step = groups, schedule, last_step
        self._max_staleness = max_staleness
        self._step = 0
        self._server: Server | None = None
        self._threads: list[threading.Thread] = []
        self._counting = threading.Lock()
        self._error: BaseException | None = None

    def begin(self, step: int) -> None:
        if self._server is None:  # only now are restored values in the model and the optimizer
            self._start(step)

    def step(self, step: int) -> None:
        assert self._server is not None
        self._flat.take(gradients_of(self._parameters))
        self._server.apply(0, step, self._flat.buffer, float(self._own_loss.value))
        if self._step == 0:
            self._server.lend_state(self._optimizer)  # the server's state exists only since its first update
        self._step = step
        with waiting():
            self._lead = self._server.clocks.wait(0)
        self._raise_error()
        self._pull(self._server)

    def finish(self) -> None:
        """Wait for the last steps of the living workers. An early end is first sent to them with their next answer."""
        if self._server is None:
            return
        if self._step < self._last_step:
            self._server.clocks.end()
        for thread in self._threads:
            thread.join()
        self._raise_error()
        self._pull(self._server)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """The newest weights, from which rank 0's next step starts too."""
        if self._server is not None:
            self._pull(self._server)
        yield

    def late_losses(self) -> Mapping[int, float]:
        return {} if self._server is None else self._server.clocks.take_losses()

    def _start(self, step: int) -> None:
        clocks = Clocks([0, *self._groups], done=step - 1, max_staleness=self._max_staleness)
        self._server = Server(self._optimizer, self._schedule, clocks)
        for rank, group in self._groups.items():
            # Daemons: when the training of rank 0 fails, the process ends with it.
            args = (rank, group, self._server)
            thread = threading.Thread(target=self._serve, args=args, name=f"serve-{rank}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _pull(self, server: Server) -> None:
        server.copy_to(self._flat.buffer)
        self._flat.give(self._parameters)

    def _serve(self, rank: int, group: dist.ProcessGroup, server: Server) -> None:
        try:
            self._answer(rank, group, server)
        except Exception as error:  # our own error, not the worker's: rank 0 raises it, and all waiting ends
            self._error = error
            server.clocks.end()

    def _answer(self, rank: int, group: dist.ProcessGroup, server: Server) -> None:
        """Answer every push of one worker, to its end or that of the training."""
        message, clocks = ServerMessage(self._parameters), server.clocks
        step, is_over = 0, False
        while step < self._last_step and not is_over:
            try:
                message.receive(rank, group)
            except RuntimeError as error:
                return remove_worker(clocks, rank, error)
            step, loss = int(message.numbers[0]), message.numbers[1]
            if not clocks.is_over:
                server.apply(rank, step, message.payload, loss)
            lead = clocks.wait(rank)
            is_over = clocks.is_over
            server.copy_to(message.payload)
            try:
                num_bytes = message.send(rank, group, lead, is_over)
            except RuntimeError as error:
                return remove_worker(clocks, rank, error)
            with self._counting:
                self.bytes_sent += num_bytes

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


class RemoteWorker(Worker):
    """The ``Synchronization`` of every other rank: its weights are copies, a few steps old."""

    is_agreed = False  # these weights are never saved

    def __init__(self, optimizer: torch.optim.Optimizer, own_loss: OwnLoss, group: dist.ProcessGroup) -> None:
        super().__init__(optimizer, own_loss)
        self._group = group
        self._message = ServerMessage(self._parameters)

    def step(self, step: int) -> None:
        """Push this step's gradient, and pull weights once the slowest worker is near enough. Raises ServerLost."""
        message = self._message
        self._flat.take(gradients_of(self._parameters))
        message.payload.copy_(self._flat.buffer)
        try:
            self.bytes_sent += message.send(0, self._group, step, float(self._own_loss.value))
            message.receive(0, self._group)
        except RuntimeError as error:
            raise ServerLost(f"rank 0, which holds the weights, is gone in step {step}: {error}") from error
        self._lead, self.is_over = int(message.numbers[0]), bool(message.numbers[1])
        self._flat.buffer.copy_(message.payload)
        self._flat.give(self._parameters)

    def finish(self) -> None:
        """Do nothing: rank 0 has answered the last step."""

    def late_losses(self) -> Mapping[int, float]:
        return {}


def remove_worker(clocks: "Clocks", rank: int, error: RuntimeError) -> None:
    """Continue without a worker that was killed or disconnected."""
    clocks.remove(rank)
    why = str(error).partition("] ")[2].partition(". ")[0] or str(error)  # gloo names its file, and guesses at causes
    print(f"rank {rank} is gone ({why}); the training goes on without its share of the batch", flush=True)


def gradients_of(parameters: Sequence[nn.Parameter]) -> list[torch.Tensor]:
    """Return their gradients; of a parameter that the loss does not depend on, zeros."""
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]


def apply(assembly: Assembly) -> None:
    """A collective of all ranks, the last one of the training."""
    if assembly.synchronization_kind != "parameter-server":
        return
    mesh, optimizer, own_loss = assembly.mesh, assembly.optimizer, assembly.own_loss
    groups = connect(mesh.world_size)
    if mesh.rank > 0:
        assembly.synchronization = RemoteWorker(optimizer, own_loss, groups[mesh.rank])
        return
    assembly.synchronization = ServingWorker(
        optimizer,
        own_loss,
        groups,
        assembly.schedule,
        last_step=assembly.settings.steps,
        max_staleness=assembly.parallel.synchronization.max_staleness,
    )


class Clocks:
    """The last step that each living worker has done. Any thread may call anything."""

    def __init__(self, ranks: Iterable[int], *, done: int, max_staleness: int) -> None:
        self.max_staleness = max_staleness
        self.is_over = False
        self._changed = threading.Condition()
        self._done = dict.fromkeys(ranks, done)
        self._losses: dict[int, dict[int, float]] = {}  # by step and rank, of steps that not all have done

    @property
    def living(self) -> list[int]:
        with self._changed:
            return sorted(self._done)

    def advance(self, rank: int, step: int, loss: float) -> None:
        """Record that ``rank`` has done ``step``, with this mean loss over its rows."""
        with self._changed:
            self._done[rank] = step
            self._losses.setdefault(step, {})[rank] = loss
            self._changed.notify_all()

    def remove(self, rank: int) -> None:
        """Remove ``rank``: no worker waits for it from now on."""
        with self._changed:
            self._done.pop(rank, None)
            self._changed.notify_all()

    def end(self) -> None:
        """End all waiting: the training is over."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def wait(self, rank: int) -> int:
        """Return how many steps ``rank`` is ahead of the slowest, once it may begin another."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or self._lead(rank) <= self.max_staleness)
            return self._lead(rank)

    def take_losses(self) -> dict[int, float]:
        """Return the mean loss of the steps that all living workers have done, each step once. Losses that a worker
        sent before its death count."""
        with self._changed:
            slowest = min(self._done.values())
            ready = sorted(step for step in self._losses if step <= slowest)
            finished = {step: self._losses.pop(step).values() for step in ready}
            return {step: sum(losses) / len(losses) for step, losses in finished.items()}

    def _lead(self, rank: int) -> int:
        return self._done[rank] - min(self._done.values())
