"""When ranks agree on their weights: in every step, or in the ways that strategies beside this file know."""

from __future__ import annotations

from typing import Protocol

import torch

from workers.training.numerics import Precision


class Synchronization(Protocol):
    """What stands between the gradients of a step and the weights of the next."""

    def begin(self, step: int) -> None:
        """Make the weights those that ``step`` starts from."""

    def step(self, step: int) -> None:
        """Take the optimiser's step; agree with the other ranks where that is due."""

    def finish(self) -> None:
        """Agree for the last time: afterwards every rank holds the weights that are kept."""

    def state(self) -> dict[str, torch.Tensor]:
        """Return what a checkpoint must hold beside model and optimiser, by name: this rank's own tensors."""

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what ``state`` gave."""


class EveryStep:
    """Gradients arrive reduced: the weights stay equal on all ranks by themselves."""

    def __init__(self, optimizer: torch.optim.Optimizer, precision: Precision) -> None:
        self._optimizer = optimizer
        self._precision = precision

    def begin(self, step: int) -> None:
        pass

    def step(self, step: int) -> None:
        self._precision.step(self._optimizer)

    def finish(self) -> None:
        pass

    def state(self) -> dict[str, torch.Tensor]:
        return {}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        assert not state
