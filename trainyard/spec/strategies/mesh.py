"""Mesh of ranks: how many each kind of parallelism gets, and the place of each. Arithmetic, for pages as for ranks."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from trainyard.spec.sections.parallel import Parallel
from trainyard.spec.strategies import AXES as TABLE
from trainyard.spec.strategies import Axis

AXES = tuple(axis.name for axis in TABLE)  # outermost first
INNER = tuple(axis for axis in TABLE if axis.name != "data")  # what data: auto divides the world size by


@dataclass(frozen=True, slots=True)
class Mesh:
    """The degrees, in the order of AXES, and the place of this rank among them.

    Ranks count with ``tensor`` running fastest: it talks most, so its ranks should be neighbours on one node.
    """

    degrees: tuple[int, ...]
    rank: int = 0

    def degree(self, axis: str) -> int:
        return self.degrees[AXES.index(axis)]

    @property
    def stages(self) -> int:
        return self.degree("pipeline")

    @property
    def data(self) -> int:
        return self.degree("data")

    @property
    def shard(self) -> int:
        return self.degree("shard")

    @property
    def tensor(self) -> int:
        return self.degree("tensor")

    @property
    def world_size(self) -> int:
        return math.prod(self.degrees)

    @property
    def used(self) -> dict[str, int]:
        """The degrees that are above 1, outermost first."""
        return {axis: degree for axis, degree in zip(AXES, self.degrees, strict=True) if degree > 1}

    @property
    def coordinates(self) -> dict[str, int]:
        """Place of this rank on each of the AXES."""
        return self.coordinates_of(self.rank)

    def coordinates_of(self, rank: int) -> dict[str, int]:
        """Return the place of ``rank`` on each of the AXES. Raises ValueError for a rank that is none of the mesh's."""
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
        return self._product(lambda axis: axis.cuts_batch)

    @property
    def batch_part(self) -> int:
        """Number of this rank's part of the batch."""
        part, coordinates = 0, self.coordinates
        for axis in TABLE:
            if axis.cuts_batch:
                part = part * self.degree(axis.name) + coordinates[axis.name]
        return part

    @property
    def num_copies(self) -> int:
        """Number of ranks that hold the same weights and average their gradients."""
        return self._product(lambda axis: axis.has_copies)

    @property
    def num_alike(self) -> int:
        """Number of ranks that compute the loss of the same rows together."""
        return self._product(lambda axis: axis.shares_rows)

    @property
    def is_replicated(self) -> bool:
        """Return whether there are several ranks, and each holds the whole model."""
        return 1 < self.num_copies == self.world_size

    def _product(self, is_counted: Callable[[Axis], bool]) -> int:
        return math.prod(self.degree(axis.name) for axis in TABLE if is_counted(axis))


def make_mesh(parallel: Parallel, world_size: int, rank: int = 0) -> Mesh:
    """Return the mesh for ``parallel`` of a spec. Raises ValueError, naming the numbers, when they do not multiply."""
    inner = inner_degrees(parallel)
    others = math.prod(inner.values())
    if min(inner.values()) < 1:
        raise ValueError(f"parallel: degrees start at 1, got {inner_words(inner, between=', ')}")
    data = parallel.data
    if not isinstance(data, int):  # auto
        if world_size % others:
            raise ValueError(f"parallel: {inner_words(inner)} = {others} does not divide the {world_size} ranks")
        data = world_size // others
    if data * others != world_size:
        product = f"data {data} x {inner_words(inner)} = {data * others}"
        raise ValueError(f"parallel: {product}, but there are {world_size} ranks")
    return Mesh(tuple(({"data": data} | inner)[axis] for axis in AXES), rank)


def inner_words(degrees: Mapping[str, int], between: str = " x ") -> str:
    """Return the degrees but for data in words, stages last: ``shard 2 x tensor 1 x pipeline.stages 1``. An axis that
    few runs use is named where its degree is not 1."""
    named = [axis for axis in INNER if not axis.is_rare or degrees[axis.name] != 1]
    ordered = sorted(named, key=lambda axis: axis.name == "pipeline")
    return between.join(f"{axis.path.removeprefix('parallel.')} {degrees[axis.name]}" for axis in ordered)


def inner_degrees(parallel: Parallel) -> dict[str, int]:
    """Return the degrees of ``parallel`` of a spec, but for data."""
    return {axis.name: attrgetter(axis.path.removeprefix("parallel."))(parallel) for axis in INNER}
