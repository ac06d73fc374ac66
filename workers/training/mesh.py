"""How many ranks each kind of parallelism gets. The mesh is an argument of whoever needs it, never a global."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mesh:
    """The degrees, outermost first (stages, data, shard, tensor), and the place of this rank among them.

    Ranks count with ``tensor`` running fastest: it talks most, so its ranks should be neighbours on one node.
    """

    stages: int
    data: int
    shard: int
    tensor: int
    rank: int

    @property
    def world_size(self) -> int:
        return self.stages * self.data * self.shard * self.tensor

    @property
    def num_batch_parts(self) -> int:
        """Into how many parts the global batch is cut: replicas and shards each see their own samples."""
        return self.data * self.shard

    @property
    def batch_part(self) -> int:
        """Which of those parts is this rank's."""
        return self.rank // self.tensor % self.num_batch_parts


def make_mesh(parallel: Mapping[str, Any], world_size: int, rank: int = 0) -> Mesh:
    """Return the mesh for ``parallel`` of a spec. Raises ValueError, naming the numbers, when they do not multiply."""
    shard, tensor, stages = parallel["shard"], parallel["tensor"], parallel["pipeline"]["stages"]
    others = shard * tensor * stages
    if min(shard, tensor, stages) < 1:
        raise ValueError(f"parallel: degrees start at 1, got shard {shard}, tensor {tensor}, pipeline.stages {stages}")
    data = parallel["data"]
    if data == "auto":
        if world_size % others:
            raise ValueError(
                f"parallel: shard {shard} x tensor {tensor} x pipeline.stages {stages} = {others} "
                f"does not divide the {world_size} ranks"
            )
        data = world_size // others
    if data * others != world_size:
        raise ValueError(
            f"parallel: data {data} x shard {shard} x tensor {tensor} x pipeline.stages {stages} = {data * others}, "
            f"but there are {world_size} ranks"
        )
    return Mesh(stages=stages, data=data, shard=shard, tensor=tensor, rank=rank)


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
