"""Local SGD: every rank steps on its own rows, and every few steps all ranks average their weights.

Source: Stich 2019, "Local SGD Converges Fast and Communicates Little", algorithm 1; McMahan et al. 2017,
"Communication-Efficient Learning of Deep Networks from Decentralized Data", algorithm 1 (FedAvg).

Between two averages ranks send nothing, so a slow rank delays no other and a slow network costs little. Two things
follow:

- Each rank keeps its own optimizer state (momentum, Adam's moments). Averaging it would send two or three times as
  much, and the state adapts to the averaged weights within a few steps.
- The loss of a global batch is late. Each rank keeps the losses of its own rows and sends them with the next average,
  in the same buffer as the weights.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist

from workers.training.assembly import Assembly
from workers.training.measuring.collectives import ring_bytes
from workers.training.optimizing.numerics import Precision
from workers.training.strategies.synchronization.protocol import Flat, OwnLoss, Synchronization, parameters_of


@dataclass(eq=False)
class LocalSGD(Synchronization):
    """A ``Synchronization`` over all ranks of the default group. ``own_loss`` takes the loss from the passes."""

    optimizer: torch.optim.Optimizer
    precision: Precision
    own_loss: OwnLoss
    every_steps: int
    world_size: int

    def __post_init__(self) -> None:
        self.parameters = parameters_of(self.optimizer)
        self._mean = Flat(self.parameters, num_extra=self.every_steps)
        self._losses: list[tuple[int, torch.Tensor]] = []  # of this rank's rows, since the last average
        self._late: dict[int, float] = {}

    @property
    def is_agreed(self) -> bool:
        return not self._losses

    def step(self, step: int) -> None:
        self.precision.step(self.optimizer)
        self._losses.append((step, self.own_loss.value))
        if step % self.every_steps == 0:
            self._agree()

    def finish(self) -> None:
        """Average once more if the last step fell within a round."""
        if not self.is_agreed:
            self._agree()

    @contextmanager
    def agreed(self) -> Iterator[None]:
        if self.is_agreed:
            yield
            return
        own = [parameter.detach().clone() for parameter in self.parameters]
        self._average()
        self._mean_as_kept().give(self.parameters)
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(list[torch.Tensor](self.parameters), own)

    def late_losses(self) -> Mapping[int, float]:
        late, self._late = self._late, {}
        return late

    def measured(self) -> Mapping[str, float]:
        return {"rank/sent_bytes": self.newly_sent()}

    def _agree(self) -> None:
        self._average()
        means = self._mean.extra[: len(self._losses)].tolist()
        self._late = {step: loss for (step, _), loss in zip(self._losses, means, strict=True)}
        self._losses.clear()
        self._keep().give(self.parameters)

    def _average(self) -> None:
        """Fill ``_mean`` with the mean of all ranks' weights, followed by the mean losses of this round's steps."""
        self._mean.take(self.parameters)
        self._mean.extra.zero_()
        if self._losses:
            self._mean.extra[: len(self._losses)] = torch.stack([loss for _, loss in self._losses]).float()
        self._sum_over_ranks(self._mean.buffer)
        self._mean.buffer.div_(self.world_size)

    def _sum_over_ranks(self, buffer: torch.Tensor) -> None:
        dist.all_reduce(buffer)
        self.bytes_sent += ring_bytes(buffer.numel() * buffer.element_size(), self.world_size)

    # A subclass that uses the average differently overrides these.

    def _mean_as_kept(self) -> Flat:
        """Return the weights that would be saved after this average, without changing anything."""
        return self._mean

    def _keep(self) -> Flat:
        """Return the weights from which all ranks continue after this average."""
        return self._mean


def apply(assembly: Assembly) -> None:
    if assembly.synchronization_kind != "local-sgd":
        return
    assembly.synchronization = LocalSGD(
        assembly.optimizer,
        assembly.precision,
        assembly.own_loss,
        every_steps=assembly.parallel.synchronization.every_steps,
        world_size=assembly.mesh.world_size,
    )
