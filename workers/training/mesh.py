"""The mesh among processes: torch's groups for its axes, and each rank's share of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from trainyard.spec.mesh import AXES, Mesh, make_mesh

__all__ = ["AXES", "BatchShare", "Mesh", "make_device_mesh", "make_mesh", "share_batch"]


def make_device_mesh(mesh: Mesh, device: torch.device) -> DeviceMesh | None:
    """Return torch's mesh with the dimensions AXES; None where copies of the whole model are all there is.

    A collective: every rank calls it once. Without it the default group is the one for data, and no other is formed.
    """
    if mesh.world_size == mesh.data:
        return None
    return init_device_mesh(device.type, mesh.degrees, mesh_dim_names=AXES)


@dataclass(frozen=True, slots=True)
class BatchShare:
    """This rank's rows of every global batch: ``accumulate`` micro-batches of ``micro`` rows."""

    micro: int
    accumulate: int
    part: int
    num_parts: int

    def rows(self, index: int) -> slice:
        """Return the rows of micro-batch ``index``; together, all ranks and indices cover the batch exactly once."""
        start = (index * self.num_parts + self.part) * self.micro
        return slice(start, start + self.micro)


def share_batch(batch_size: int, accumulate: int, mesh: Mesh) -> BatchShare:
    """Return this rank's share. Raises ValueError where the batch does not divide, naming the sizes that would."""
    pieces = accumulate * mesh.num_batch_parts
    if batch_size < 1 or batch_size % pieces:
        below = batch_size // pieces * pieces
        accepted = f"{below} or {below + pieces}" if below > 0 else f"{pieces}"
        raise ValueError(
            f"train.batch_size is {batch_size}, which train.accumulate {accumulate} x {mesh.num_batch_parts} data "
            f"ranks = {pieces} does not divide; the nearest that divide are {accepted}"
        )
    return BatchShare(batch_size // pieces, accumulate, mesh.batch_part, mesh.num_batch_parts)
