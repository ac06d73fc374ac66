"""A ring all-reduce, step by step, as libraries do it underneath: to see what theirs is worth.

Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations", section 3. The
tensor is cut into as many parts as there are ranks. In n - 1 rounds each rank sends one part to its right and adds what
comes from its left; then each owns one part's sum, and in n - 1 more rounds the sums go round. Each rank sends
2 (n - 1) / n of the tensor, whatever n is.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def ring_all_reduce(tensor: torch.Tensor, arriving: torch.Tensor | None = None) -> None:
    """Sum ``tensor`` in place over all ranks; its length is a multiple of their number.

    ``arriving`` is room for one part. Raises ValueError for a length that the ranks do not divide.
    """
    world, rank = dist.get_world_size(), dist.get_rank()
    if tensor.numel() % world:
        raise ValueError(f"{tensor.numel()} numbers cannot be cut into {world} equal parts")
    parts = tensor.view(world, -1)
    room = torch.empty_like(parts[0]) if arriving is None else arriving
    for turn in range(world - 1):
        _shift(parts[(rank - turn) % world], room)
        parts[(rank - turn - 1) % world].add_(room)
    for turn in range(world - 1):
        _shift(parts[(rank - turn + 1) % world], parts[(rank - turn) % world])


def _shift(leaving: torch.Tensor, arriving: torch.Tensor) -> None:
    """Send one part to the right and take one from the left. Both at once: if all only sent, all would wait."""
    world, rank = dist.get_world_size(), dist.get_rank()
    if world == 1:
        return
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, leaving, (rank + 1) % world), dist.P2POp(dist.irecv, arriving, (rank - 1) % world)]
    )
    for work in works:
        work.wait()
