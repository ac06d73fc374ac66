"""The norm of all gradients, and their limit, over every way in which parameters may be spread."""

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from trainyard.grouping import grouped

EPSILON = 1e-6  # as in torch: a norm of zero divides nothing


@torch.no_grad()
def clip(parameters: Iterable[torch.nn.Parameter], limit: float, device_mesh: DeviceMesh | None = None) -> torch.Tensor:
    """Scale the gradients so that their norm over all parameters is at most ``limit`` (0: leave); return the norm, a
    scalar on the device that is the same on every rank.

    ``device_mesh`` are all ranks by their axes, and then every rank calls this: parameters may be cut into DTensors of
    any kinds and spread over stages of a pipeline. None where each rank holds the whole model.

    Each rank measures the pieces it holds, and their squares add up over all ranks in one message of one number. A
    piece that several ranks hold goes in from each of them, and so counts for one part of that many.
    """
    gradients = [_final(parameter) for parameter in parameters if parameter.grad is not None]
    pieces = [gradient.to_local() if isinstance(gradient, DTensor) else gradient for gradient in gradients]
    if device_mesh is None:
        norm = torch.nn.utils.get_total_norm(pieces, foreach=True)
    else:
        norm = _norm_over_ranks(gradients, pieces, device_mesh)
    if limit and pieces:
        torch._foreach_mul_(pieces, (limit / (norm + EPSILON)).clamp(max=1.0))
    return norm


def _norm_over_ranks(
    gradients: list[torch.Tensor], pieces: list[torch.Tensor], device_mesh: DeviceMesh
) -> torch.Tensor:
    copies = [_num_copies(gradient, device_mesh) for gradient in gradients]
    total = torch.zeros((), device=device_mesh.device_type)
    for num_copies, alike in grouped(zip(copies, pieces, strict=True)).items():
        total += torch.nn.utils.get_total_norm(alike, foreach=True).square() / num_copies
    dist.all_reduce(total)
    return total.sqrt()


def _num_copies(gradient: torch.Tensor, device_mesh: DeviceMesh) -> int:
    """Return how many ranks of the whole mesh hold this very piece: no two stages hold the same parameter, and the
    ranks of a stage hold it as often as there are more of them than different pieces."""
    num_pieces = 1
    if isinstance(gradient, DTensor):
        mesh = gradient.device_mesh
        # Not ``is_shard()``: it denies the pieces of pieces that a shard of a tensor-parallel weight is.
        cut = (axis for axis, kind in enumerate(gradient.placements) if not kind.is_replicate())
        num_pieces = math.prod(map(mesh.size, cut))
    return device_mesh.size() // device_mesh["pipeline"].size() // num_pieces


def _final(parameter: torch.nn.Parameter) -> torch.Tensor:
    """Return the gradient; where it is a sum that ranks have parts of, make the sum first: its norm is no sum."""
    gradient = parameter.grad
    assert gradient is not None
    if isinstance(gradient, DTensor) and any(placement.is_partial() for placement in gradient.placements):
        assert isinstance(parameter, DTensor)
        gradient = gradient.redistribute(placements=parameter.placements)
        parameter.grad = gradient
    return gradient
