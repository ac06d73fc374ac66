"""The norm of all gradients, and their limit, over every way in which parameters may be spread."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def clip(parameters: Iterable[torch.nn.Parameter], limit: float) -> torch.Tensor:
    """Scale the gradients so that their norm over all parameters is at most ``limit`` (0: leave); return the norm."""
    parameters = [p for p in parameters if p.grad is not None]
    norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None], foreach=True)
    if limit:
        torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm, foreach=True)
    return norm
