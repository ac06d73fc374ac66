"""Part of the cluster that a run takes: on a number of nodes, or on as many of a range as are free."""

import re
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from trainyard.contract.machines import LABEL
from trainyard.spec.problems import show
from trainyard.spec.values.fields import NUMBER, RANGE, Number, Part, more_where, where_field

MOST_NODES = 10_000
MOST_NODES_OF_A_RANGE = 1_000
MOST_SHARES = 16  # of a slot
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?([KMGT])(i?)B")


def shares_of(slots_per_process: float) -> int:
    """Return into how many shares a slot is divided, of which a run takes one."""
    return round(1 / slots_per_process)


def _share(value: float) -> float:
    if 0 < value <= 1 and abs(shares_of(value) * value - 1) > 0.02:  # 0.33 is a third
        raise ValueError(f"must be 1 over a whole number, such as 0.5 or 0.25, not {show(value)}")
    return value


def kinds_in(gpu: str) -> tuple[str, ...]:
    """Return the kinds of GPUs in ``H100|A100``. Raises ValueError."""
    kinds = tuple(kind.strip() for kind in gpu.split("|")) if gpu else ()
    if not all(map(tokens_of, kinds)):
        raise ValueError(f"must be a kind of GPU such as H100, or several such as H100|A100, not {show(gpu)}")
    return kinds


@lru_cache(1_000)
def tokens_of(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", name.lower()))


def bytes_of(size: str) -> int:
    """Return the bytes of ``64 GiB``; 0 of an empty text. Raises ValueError."""
    found = _SIZE.fullmatch(size)
    if size and not found:
        raise ValueError(f"must be a size such as 64 GiB or 500 GB, not {show(size)}")
    return round(float(found[1]) * (1024 if found[3] else 1000) ** ("KMGT".index(found[2]) + 1)) if found else 0


def _labels(value: dict[str, str]) -> dict[str, str]:
    for text in (*value, *value.values()):
        if not LABEL.fullmatch(text):
            raise ValueError(f"must have names and values of letters, digits, ., _, / and -, not {show(text)}")
    return value


Labels = Annotated[dict[str, str], Field(max_length=20), AfterValidator(_labels)]


class NodeRange(Part):
    """The numbers of nodes between which a run grows and shrinks."""

    min: int = Field(ge=1, le=MOST_NODES_OF_A_RANGE)
    max: int = Field(ge=1, le=MOST_NODES_OF_A_RANGE)


Nodes = Annotated[
    Annotated[int, Field(ge=1, le=MOST_NODES), Tag(NUMBER)] | Annotated[NodeRange, Tag(RANGE)],
    Discriminator(lambda given: RANGE if isinstance(given, dict | NodeRange) else NUMBER),
]


class Resources(Part):
    """Part of the cluster that a run takes."""

    nodes: Nodes = where_field(
        1,
        "Nodes",
        "Machines that train together: a number, or a range such as 1-4 for a run that grows and shrinks.",
        kind="nodes",
    )
    processes_per_node: int = where_field(
        1, "Processes per node", "Ranks on each node; each takes one slot.", within=(1, 1_024)
    )
    slots_per_process: Annotated[Number, AfterValidator(_share)] = more_where(
        1.0,
        "Slots per process",
        "0.5 shares a slot, a GPU or a CPU slot, between two runs of one rank; 0.25 between four. Its memory is "
        "not divided.",
        within=(1 / MOST_SHARES, 1),
    )
    accelerator: Literal["auto", "cpu", "gpu"] = where_field(
        "auto", "Accelerator", "auto takes GPUs where the nodes have them."
    )
    gpu: Annotated[str, Field(max_length=200), AfterValidator(lambda value: (kinds_in(value), value)[1])] = more_where(
        "", "Kinds of GPU", "Of each node, such as H100; of several with bars between any will do."
    )
    memory_per_node: Annotated[str, Field(max_length=20), AfterValidator(lambda value: (bytes_of(value), value)[1])] = (
        more_where("", "Memory per node", "That each node has at least, such as 64 GiB.")
    )
    cpus: int = more_where(0, "Cores per node", "That each node has at least.", within=(0, 4_096))
    labels: Labels = more_where({}, "Labels of nodes", "That each node has, such as pool: fast.")
    preferred_labels: Labels = more_where({}, "Preferred labels", "Nodes that have them come before others.")
    within: Annotated[str, Field(max_length=60)] = more_where(
        "", "Within one", "A level of the cluster's topology, such as rack, that all nodes share."
    )

    @property
    def slot_shares(self) -> int:
        return shares_of(self.slots_per_process)

    @property
    def is_elastic(self) -> bool:
        return isinstance(self.nodes, NodeRange)

    @property
    def least_nodes(self) -> int:
        return self.nodes.min if isinstance(self.nodes, NodeRange) else self.nodes

    @property
    def most_nodes(self) -> int:
        return self.nodes.max if isinstance(self.nodes, NodeRange) else self.nodes
