"""What a check sees of a node: plain values, read from its row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from runs.models import Node
from trainyard.contract.machines import Health, Inventory, SelfCheck


@dataclass(frozen=True)
class CheckedNode:
    """A node at one moment. ``own`` is None where the node reports no checks: it is of an older version."""

    id: str
    name: str
    is_in_contact: bool
    machine: Inventory
    version: str
    health: Health
    own: SelfCheck | None

    @property
    def software(self) -> tuple[str, str]:
        """Python and torch without the digits that make no difference to ranks of one group."""
        return _release(self.machine.python), _release(self.machine.torch)

    @property
    def free_memory_bytes(self) -> int | None:
        total, used = self.health.memory_bytes, self.health.memory_used_bytes
        return None if total is None or used is None else max(0, total - used)


def checked_nodes(nodes: Iterable[Node], now: datetime) -> list[CheckedNode]:
    """Return them in the order of their names."""
    found = [
        CheckedNode(
            id=node.pk,
            name=node.name,
            is_in_contact=node.is_in_contact(now),
            machine=node.machine,
            version=node.version,
            health=node.health_now or Health(),
            own=node.own_checks,
        )
        for node in nodes
    ]
    return sorted(found, key=lambda one: one.name)


def _release(version: str | None) -> str:
    """Return major and minor number: 3.11 of 3.11.9, 2.13 of 2.13.0+cpu."""
    return ".".join((version or "").split("+")[0].split(".")[:2])
