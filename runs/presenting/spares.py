"""Spare nodes in words."""

from collections.abc import Iterable

from runs.models import Node


def spare_sentence(node: Node) -> str:
    """Say for how many runs the node is ready; empty where it prepares for none."""
    if not node.standby:
        return ""
    ready, number = sum(not why for why in node.standby.values()), len(node.standby)
    runs = f"{number:,} run{'s' if number > 1 else ''}"
    if ready == number:
        return f"A spare: it is ready to take over {runs} of this cluster at once."
    why = next(why for why in node.standby.values() if why)
    return f"A spare: it is ready to take over {ready:,} of {runs} of this cluster; for the others, {why.rstrip('.')}."


def num_ready(nodes: Iterable[Node]) -> int:
    """Return how many spares have prepared everything."""
    return sum(bool(node.standby) and not any(node.standby.values()) for node in nodes)
