"""Many tensors as one: what travels between ranks is one buffer, allocated once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import nn


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
