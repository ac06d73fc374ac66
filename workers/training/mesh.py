"""The mesh among processes: torch's groups for its axes, and each rank's share of the batch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from trainyard.spec.strategies import AXES as TABLE
from trainyard.spec.strategies.mesh import AXES, Mesh, make_mesh

__all__ = ["AXES", "BatchShare", "Mesh", "make_device_mesh", "make_mesh", "share_batch"]

COPIES = "copies"


def make_device_mesh(mesh: Mesh, device: torch.device) -> DeviceMesh | None:
    """Return torch's mesh with the dimensions AXES; None where copies of the whole model are all there is.

    A collective: every rank calls it once. Without it the default group is the one for data, and no other is formed.
    """
    if mesh.world_size == mesh.data:
        return None
    return init_device_mesh(device.type, mesh.degrees, mesh_dim_names=AXES)


def copies_of(device_mesh: DeviceMesh, mesh: Mesh) -> DeviceMesh:
    """Return the ranks that hold the same weights as this one and average their gradients, as a mesh of one axis.

    A collective where they stand on several axes: every rank calls it once.
    """
    names = tuple(axis.name for axis in TABLE if axis.has_copies and mesh.degree(axis.name) > 1)
    return device_mesh[names]._flatten(COPIES) if len(names) > 1 else device_mesh[names[0] if names else "data"]


@dataclass(frozen=True, slots=True)
class BatchShare:
    """This rank's rows of every global batch: ``accumulate`` micro-batches of ``micro`` rows."""

    micro: int
    accumulate: int
    part: int
    num_parts: int
    sizes: tuple[int, ...] = ()  # rows in a micro-batch of each part, where they are not all alike

    def rows(self, index: int) -> slice:
        """Return the rows of micro-batch ``index``; together, all ranks and indices cover the batch exactly once."""
        if self.sizes:
            start = index * sum(self.sizes) + sum(self.sizes[: self.part])
        else:
            start = (index * self.num_parts + self.part) * self.micro
        return slice(start, start + self.micro)

    @property
    def weight(self) -> float:
        """Weight of this rank's mean loss in the mean over ranks, for that to be the mean over all rows."""
        return self.micro * self.num_parts / sum(self.sizes) if self.sizes else 1.0

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """The rows in a micro-batch of each part."""
        return self.sizes or (self.micro,) * self.num_parts

    def resized(self, sizes: Sequence[int]) -> "BatchShare":
        """Return this rank's share where each part has so many rows; their sum stays. Raises ValueError otherwise."""
        if len(sizes) != self.num_parts or sum(sizes) != sum(self.all_sizes) or min(sizes) < 1:
            raise ValueError(f"{list(sizes)} are no shares of {sum(self.all_sizes)} rows among {self.num_parts} ranks")
        return replace(self, micro=sizes[self.part], sizes=tuple(sizes))


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
