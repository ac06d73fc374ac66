"""The room that nodes have: their slots, and which of them are held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from runs.models import HeldSlot, Node
from runs.placing.scheduling import Room


def rooms_of(nodes: Sequence[Node], now: datetime) -> list[Room]:
    held: dict[str, set[int]] = defaultdict(set)
    for node_id, index in HeldSlot.objects.filter(node__in=nodes).values_list("node_id", "index"):
        held[node_id].add(index)
    return [
        Room(
            node=node.pk,
            name=node.name,
            num_slots=node.slots,
            free=tuple(index for index in range(node.slots) if index not in held[node.pk]),
            accelerator=node.accelerator,
            is_in_contact=node.is_in_contact(now),
            is_draining=node.is_draining,
        )
        for node in nodes
    ]
