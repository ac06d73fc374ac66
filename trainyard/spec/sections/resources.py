"""How much of the cluster a run takes: on a number of nodes, or on as many of a range as are free."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from trainyard.spec.values.fields import NUMBER, RANGE, Part, field

MOST_NODES = 10_000
MOST_NODES_OF_A_RANGE = 1_000


class NodeRange(Part):
    """The numbers of nodes between which a run grows and shrinks."""

    min: int = Field(ge=1, le=MOST_NODES_OF_A_RANGE)
    max: int = Field(ge=1, le=MOST_NODES_OF_A_RANGE)


def _shape(value: object) -> str:
    return RANGE if isinstance(value, dict | NodeRange) else NUMBER


Nodes = Annotated[
    Annotated[int, Field(ge=1, le=MOST_NODES), Tag(NUMBER)] | Annotated[NodeRange, Tag(RANGE)],
    Discriminator(_shape),
]


class Resources(Part):
    """How much of the cluster a run takes."""

    nodes: Nodes = field(
        1,
        label="Nodes",
        help="Machines that train together: a number, or a range such as 1-4 for a run that grows and shrinks.",
        group="where",
        kind="nodes",
    )
    processes_per_node: int = field(
        1,
        label="Processes per node",
        help="Ranks on each node; each takes one slot.",
        group="where",
        minimum=1,
        maximum=1_024,
    )
    accelerator: Literal["auto", "cpu", "gpu"] = field(
        "auto", label="Accelerator", help="auto takes GPUs where the nodes have them.", group="where"
    )

    @property
    def is_elastic(self) -> bool:
        return isinstance(self.nodes, NodeRange)

    @property
    def least_nodes(self) -> int:
        return self.nodes.min if isinstance(self.nodes, NodeRange) else self.nodes

    @property
    def most_nodes(self) -> int:
        return self.nodes.max if isinstance(self.nodes, NodeRange) else self.nodes
