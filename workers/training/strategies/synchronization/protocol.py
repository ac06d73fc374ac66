"""Moments at which ranks agree on their weights: in every step, or in the ways of strategies beside this file, which
send their tensors as one."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from workers.training.optimizing.numerics import Precision


class Synchronization:
    """Way from the gradients of a step to the weights of the next. Without more than a ``step`` the weights are equal
    on all ranks after each, and nothing is carried from one to the next."""

    is_over = False  # another rank has ended the training before its last step
    bytes_sent = 0  # by this rank, since it started, where a strategy counts them itself
    _bytes_reported = 0

    @property
    def is_agreed(self) -> bool:
        """Return whether every rank that keeps a checkpoint holds the same weights now: only then is one worth to be
        kept."""
        return True

    def begin(self, step: int) -> None:
        """Make the weights those that ``step`` starts from."""

    def step(self, step: int) -> None:
        """Take the optimizer's step; agree with the other ranks where that is due."""
        raise NotImplementedError

    def finish(self) -> None:
        """Agree for the last time: afterwards every rank that keeps weights holds those that are kept. May be called
        again, and then does nothing."""

    def agreed(self) -> AbstractContextManager[None]:
        """Return a context in which the model has the weights that would be kept if the training ended now. Every
        rank that validates enters it."""
        return nullcontext()

    def late_losses(self) -> Mapping[int, float] | None:
        """Return the losses of global batches that have become known since the last call, by step. None where no loss
        is late: then the one that the passes of a step return is that of the global batch, else that of this rank's
        rows."""
        return None

    def measured(self) -> Mapping[str, float]:
        """Return what this rank has to report of the last step beside its loss, by the names of series."""
        return {}

    def newly_sent(self) -> int:
        """Return how many bytes were sent since the last call; other threads may send meanwhile."""
        sent = self.bytes_sent
        new, self._bytes_reported = sent - self._bytes_reported, sent
        return new

    def state(self) -> dict[str, torch.Tensor]:
        """Return what a checkpoint must hold beside model and optimizer, by name: this rank's own tensors."""
        return {}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what ``state`` gave; what another kind has kept is of no use and left."""


class EveryStep(Synchronization):
    """Gradients arrive reduced: the weights stay equal on all ranks by themselves."""

    def __init__(self, optimizer: torch.optim.Optimizer, precision: Precision) -> None:
        self._optimizer, self._precision = optimizer, precision

    def step(self, step: int) -> None:
        self._precision.step(self._optimizer)


class OwnLoss:
    """A ``StartSum`` that sums nothing: the loss of a step stays that of this rank's rows, and is kept for later."""

    def __init__(self, num_parts: int) -> None:
        self._num_parts = num_parts
        self.value = torch.zeros(())

    def __call__(self, share: torch.Tensor) -> None:
        """Make this rank's share of the global mean (a scalar) its own mean, in place."""
        self.value = share.mul_(self._num_parts)


def no_sum(tensor: torch.Tensor) -> None:
    """A ``StartSum`` for a rank that has all of it."""


# Many tensors as one: what travels between ranks is one buffer, allocated once.


class Flat:
    """A buffer on the tensors' device, with a view on it for each of them and ``num_extra`` numbers behind. Raises
    ValueError for tensors that are not float32, in which all parameters are kept."""

    def __init__(self, tensors: Iterable[torch.Tensor], num_extra: int = 0) -> None:
        tensors = list(tensors)
        if any(tensor.dtype != torch.float32 for tensor in tensors):
            raise ValueError(f"parameters must be float32, got {sorted({str(tensor.dtype) for tensor in tensors})}")
        num_elements = sum(tensor.numel() for tensor in tensors)
        self.buffer = torch.zeros(num_elements + num_extra, device=tensors[0].device)
        self.extra = self.buffer[num_elements:]
        pieces = torch.split(self.buffer[:num_elements], [tensor.numel() for tensor in tensors])
        self.views = [piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True)]

    @torch.no_grad()
    def take(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the tensors into the buffer."""
        torch._foreach_copy_(self.views, list(tensors))

    @torch.no_grad()
    def give(self, tensors: Sequence[torch.Tensor]) -> None:
        """Copy the buffer into the tensors."""
        torch._foreach_copy_(list(tensors), self.views)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """Return the parameters in the optimizer's order, which is the same on every rank."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
