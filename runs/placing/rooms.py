"""The room that nodes have: their slots, and which of them are held."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from runs.models import HeldSlot, Node
from runs.placing.scheduling import DividedSlot, Room
from trainyard.contract.machines import PODMAN


def is_exposed(node: Node) -> bool:
    """Return whether its cluster asks for a higher sandbox level than it has."""
    return (node.sandbox_level or 0) < node.cluster.isolation_minimum


def runs_containers(node: Node) -> bool:
    """Return whether its ranks may run in containers: also true for a machine that nobody has looked at."""
    tools = node.machine.tools
    return tools is None or PODMAN in tools


def rooms_of(nodes: Sequence[Node], now: datetime) -> list[Room]:
    held: dict[str, set[int]] = defaultdict(set)
    shares: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    sizes: dict[tuple[str, int], int] = {}
    columns = HeldSlot.objects.filter(node__in=nodes).values_list("node_id", "index", "share", "num_shares")
    for node_id, index, share, num_shares in columns:
        held[node_id].add(index)
        if num_shares > 1:
            shares[node_id][index].add(share)
            sizes[node_id, index] = num_shares
    return [
        Room(
            node=node.pk,
            name=node.name,
            num_slots=node.slots,
            free=tuple(index for index in range(node.slots) if index not in held[node.pk]),
            accelerator=node.accelerator,
            is_cold=node.machine.is_warm is False,
            is_in_contact=node.is_in_contact(now),
            is_draining=node.is_draining,
            divided={index: _divided(sizes[node.pk, index], taken) for index, taken in shares[node.pk].items()},
            is_exposed=is_exposed(node),
            runs_containers=runs_containers(node),
        )
        for node in nodes
    ]


def _divided(num_shares: int, taken: set[int]) -> DividedSlot:
    return DividedSlot(num_shares, tuple(share for share in range(num_shares) if share not in taken))
