"""Tensor parallelism: the ranks of a group cut every matrix among them, and between matrices the sequence.

A block's first matrices are cut by columns (attention: by heads), its last by rows; in between nothing is sent. What
flows between blocks, and the norms' work on it, is cut along the sequence, so that it takes memory once and not on
every rank. The loss is computed from logits that are cut along the vocabulary (``recipes/language_model.py``). Which
matrix is cut how is the recipe's table, ``Task.tensor_plan``.

Sources: Shoeybi et al. 2019, "Megatron-LM" (section 3); Korthikanti et al. 2022, "Reducing Activation Recomputation in
Large Transformer Models" (section 4.2.2, sequence parallelism).
"""

from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from workers.training.assembly import Assembly


def apply(assembly: Assembly) -> None:
    if assembly.mesh.tensor == 1:
        return
    parts = assembly.parts
    for part in parts:
        cut(part, assembly.task.tensor_plan(), assembly.group("tensor"))
    if assembly.mesh.shard == 1:  # shards sum what they reduce
        assembly.after_backward.append(
            lambda: sum_gradients(parameter for part in parts for parameter in part.parameters())
        )


def cut(part: nn.Module, plan: Mapping[str, ParallelStyle], group: DeviceMesh) -> None:
    """Cut ``part`` among the ranks of the one-dimensional ``group`` as ``plan`` says: module names, with stars.

    Every rank holds the same whole weights before. What flows into and out of a part of a pipeline is then cut along
    the sequence: (batch, time / ranks, width). Raises ValueError where a rank would be left without a piece.
    """
    own = {name: style for name, style in plan.items() if _has(part, name)}  # a stage does not hold everything
    # No source rank: all have drawn the same weights, and nothing needs to be sent.
    parallelize_module(part, group, own, src_data_rank=None)
    for name, parameter in part.named_parameters():
        # It would be trained on a part of the sequence, differently on each rank.
        assert isinstance(parameter, DTensor), f"{name} is not in the recipe's tensor plan"
        (placement,) = parameter.placements
        if isinstance(placement, Shard):
            refuse_empty_pieces(name, parameter.shape[placement.dim], group.size())


@torch.no_grad()
def sum_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Sum the gradients of what every rank of the group holds whole, the norms' gains, of which each rank has seen its
    part of the sequence: one message for all of them, after the last backward pass of a step."""
    partial = [(p, p.grad) for p in parameters if isinstance(p.grad, DTensor) and p.grad.placements[0].is_partial()]
    if not partial:
        return
    group = partial[0][1].device_mesh
    pieces = [gradient.to_local() for _, gradient in partial]
    flat = torch.cat([piece.flatten() for piece in pieces])
    dist.all_reduce(flat, group=group.get_group())
    sums = torch.split(flat, [piece.numel() for piece in pieces])
    for (parameter, _), piece, total in zip(partial, pieces, sums, strict=True):
        parameter.grad = DTensor.from_local(total.view_as(piece), group, [Replicate()], run_check=False)


def _has(part: nn.Module, pattern: str) -> bool:
    """Say whether the first part of a name such as ``layers.*.mlp`` leads to something in ``part``."""
    found = part
    for word in pattern.split("."):
        children = dict(found.named_children())
        if not children or word not in ("*", *children):
            return False
        found = next(iter(children.values())) if word == "*" else children[word]
    return True


def refuse_empty_pieces(name: str, rows: int, num_ranks: int) -> None:
    """Raise ValueError where ``num_ranks`` are more than the pieces that ``rows`` are cut into."""
    num_pieces = -(-rows // -(-rows // num_ranks))  # as chunk() cuts: equal pieces but for the last
    if num_pieces < num_ranks:
        raise ValueError(
            f"parallel.tensor is {num_ranks}, but {name} has {rows} rows to cut, which fill {num_pieces} ranks"
        )
