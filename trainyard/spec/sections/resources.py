"""Part of the cluster that a run takes: on a number of nodes, or on as many of a range as are free."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from trainyard.spec.problems import show
from trainyard.spec.values.fields import NUMBER, RANGE, Number, Part, where_field

MOST_NODES = 10_000
MOST_NODES_OF_A_RANGE = 1_000
MOST_SHARES = 16  # of a slot


def shares_of(slots_per_process: float) -> int:
    """Return into how many shares a slot is divided, of which a run takes one."""
    return round(1 / slots_per_process)


def _share(value: float) -> float:
    if 0 < value <= 1 and abs(shares_of(value) * value - 1) > 0.02:  # 0.33 is a third
        raise ValueError(f"must be 1 over a whole number, such as 0.5 or 0.25, not {show(value)}")
    return value


class NodeRange(Part):
    """The numbers of nodes between which a run grows and shrinks."""

    min: int = Field(ge=1, le=MOST_NODES_OF_A_RANGE)
    max: int = Field(ge=1, le=MOST_NODES_OF_A_RANGE)


def _shape(value: object) -> str:
    return RANGE if isinstance(value, dict | NodeRange) else NUMBER


Nodes = Annotated[
    Annotated[int, Field(ge=1, le=MOST_NODES), Tag(NUMBER)] | Annotated[NodeRange, Tag(RANGE)], Discriminator(_shape)
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
    slots_per_process: Annotated[Number, AfterValidator(_share)] = where_field(
        1.0,
        "Slots per process",
        "0.5 shares a slot, a GPU or a CPU slot, between two runs of one rank; 0.25 between four. Its memory is "
        "not divided.",
        advanced=True,
        within=(1 / MOST_SHARES, 1),
    )
    accelerator: Literal["auto", "cpu", "gpu"] = where_field(
        "auto", "Accelerator", "auto takes GPUs where the nodes have them."
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
