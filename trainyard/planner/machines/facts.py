"""Facts about nodes and data that the planner gets, and the machines of the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, or as many alike as there will be. ``memory_bytes`` is the machine's, ``device_memory_bytes`` that of
    each GPU (None on a CPU node); nodes with the same ``host`` share one machine, its memory and its cores."""

    name: str
    slots: int
    accelerator: str  # cpu or gpu
    cores: int
    memory_bytes: int
    device_memory_bytes: int | None = None
    device: str = ""  # as its maker calls it
    host: str = ""


@dataclass(frozen=True, slots=True)
class DataFacts:
    """Facts about the data before a run; None is unknown, and the planner warns of what it then assumes."""

    num_rows: int | None = None
    num_features: int | None = None  # columns of a table
    num_classes: int | None = None  # 0: a quantity is learnt
    channels: int | None = None
    image_size: int | None = None


# Machines of the ranks: which ranks share one, and what it has for each of them.


@dataclass(frozen=True)  # without slots: what is computed once needs a place
class Places:
    """The node of each rank, in the order of ranks."""

    nodes: tuple[NodeFacts, ...]

    @property
    def is_gpu(self) -> bool:
        return bool(self.nodes) and self.nodes[0].accelerator == "gpu"

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """Return what memory each rank has: a GPU is one rank's own, a machine's is shared by all that are on it."""
        return tuple(
            float(node.device_memory_bytes)
            if node.accelerator == "gpu" and node.device_memory_bytes
            else node.memory_bytes / self._sharing[_host(node)]
            for node in self.nodes
        )

    @property
    def most_forked(self) -> int:
        """Return how many ranks the fullest node has: they are forked from one process, and share pages of it."""
        return max(Counter(node.name for node in self.nodes).values())

    @cached_property
    def crowding(self) -> float:
        """Number of ranks of a machine for each of its cores, at least 1."""
        return 1.0 if self.is_gpu else max(1.0, self._ranks_per_core)

    @cached_property
    def has_spare_cores(self) -> bool:
        """Return whether something is left of each machine to exchange while all its ranks compute."""
        return self.is_gpu or self._ranks_per_core < 1

    def are_apart(self, ranks: Sequence[int]) -> bool:
        """Say whether ``ranks`` are on more than one machine."""
        return len({_host(self.nodes[rank]) for rank in ranks}) > 1

    @cached_property
    def _ranks_per_core(self) -> float:
        return max(self._sharing[_host(node)] / max(1, node.cores) for node in self.nodes)

    @cached_property
    def _sharing(self) -> Counter[str]:
        return Counter(_host(node) for node in self.nodes)


def _host(node: NodeFacts) -> str:
    return node.host or node.name


@lru_cache(maxsize=16)
def place_ranks(nodes: tuple[NodeFacts, ...], num_nodes: int, processes: int) -> Places:
    """Return where ``processes`` ranks on each of ``num_nodes`` stand. Fewer nodes than that stand for more alike.

    Raises ValueError without any.
    """
    if not nodes:
        raise ValueError("there is no node to plan for")
    taken = list(nodes[:num_nodes])
    for index in range(len(taken), num_nodes):
        taken.append(replace(nodes[-1], name=f"{nodes[-1].name} {index}"))  # another machine, unless it names its host
    return Places(tuple(node for node in taken for _ in range(processes)))
