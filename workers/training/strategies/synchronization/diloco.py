"""DiLoCo: ranks step on their own for long, and an outer optimizer steps by how far they have moved on average.

Source: Douillard et al. 2023, "DiLoCo: Distributed Low-Communication Training of Language Models", algorithm 1. The
inner optimizer is that of the spec (AdamW in the paper), and its state stays each rank's own (section 3.1 there). The
outer one is SGD with Nesterov's momentum (Sutskever et al. 2013, in the form that torch's SGD has)::

    change   = outer - mean(inner weights of the ranks)
    velocity = momentum x velocity + change
    outer    = outer - learning_rate x (change + momentum x velocity)

Each rank holds outer weights and velocity and computes this alike, so that only the average travels. A momentum of 0
with a learning rate of 1 is local SGD.
"""

from dataclasses import dataclass

import torch

from workers.training.assembly import Assembly
from workers.training.strategies.synchronization.local_sgd import LocalSGD
from workers.training.strategies.synchronization.protocol import Flat

VELOCITY = "velocity"


@dataclass(eq=False)
class DiLoCo(LocalSGD):
    """Twice the weights more than local SGD in memory, and nothing more to send.

    At an agreement the outer weights are the model's own, so that a checkpoint taken there needs the velocity alone.
    """

    learning_rate: float
    momentum: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._outer = Flat(self.parameters)
        self._velocity = torch.zeros_like(self._outer.buffer)

    def begin(self, step: int) -> None:
        if self.is_agreed:  # the first step of a round: the weights are the first ones, restored ones, or ours
            self._outer.take(self.parameters)

    def state(self) -> dict[str, torch.Tensor]:
        return {VELOCITY: self._velocity}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """A checkpoint of another kind has no velocity: it starts at rest."""
        if VELOCITY in state:
            self._velocity.copy_(state[VELOCITY])

    def _mean_as_kept(self) -> Flat:
        weights, _ = self._outer_step()
        self._mean.buffer[: weights.numel()] = weights
        return self._mean

    def _keep(self) -> Flat:
        weights, self._velocity = self._outer_step()
        self._outer.buffer.copy_(weights)
        return self._outer

    def _outer_step(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the outer weights and the velocity become; ``_mean`` holds the inner weights' mean."""
        change = self._outer.buffer - self._mean.buffer[: self._outer.buffer.numel()]
        velocity = self.momentum * self._velocity + change
        return self._outer.buffer - self.learning_rate * (change + self.momentum * velocity), velocity


def apply(assembly: Assembly) -> None:
    if assembly.synchronization_kind != "diloco":
        return
    fields = assembly.parallel.synchronization
    assembly.synchronization = DiLoCo(
        assembly.optimizer,
        assembly.precision,
        assembly.own_loss,
        every_steps=fields.every_steps,
        world_size=assembly.mesh.world_size,
        learning_rate=fields.outer_learning_rate,
        momentum=fields.outer_momentum,
    )
