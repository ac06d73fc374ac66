"""How many ranks each kind of parallelism gets, and where each stands: arithmetic, for pages as for ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AXES = ("pipeline", "data", "shard", "tensor")  # outermost first


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
    def degrees(self) -> tuple[int, int, int, int]:
        """In the order of AXES."""
        return self.stages, self.data, self.shard, self.tensor

    @property
    def world_size(self) -> int:
        return self.stages * self.data * self.shard * self.tensor

    @property
    def used(self) -> dict[str, int]:
        """The degrees that are above 1, outermost first."""
        return {axis: degree for axis, degree in zip(AXES, self.degrees, strict=True) if degree > 1}

    @property
    def coordinates(self) -> dict[str, int]:
        """Where this rank stands on each of the AXES."""
        return self.coordinates_of(self.rank)

    def coordinates_of(self, rank: int) -> dict[str, int]:
        """Where ``rank`` stands on each of the AXES. Raises ValueError for a rank that is none of the mesh's."""
        if not 0 <= rank < self.world_size:
            raise ValueError(f"rank {rank} is not one of the {self.world_size} ranks 0 to {self.world_size - 1}")
        left, found = rank, {}
        for axis, degree in reversed(list(zip(AXES, self.degrees, strict=True))):
            left, found[axis] = divmod(left, degree)
        return {axis: found[axis] for axis in AXES}

    @property
    def stage(self) -> int:
        return self.coordinates["pipeline"]

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
