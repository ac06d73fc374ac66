"""Sentences about a change of the number of nodes, for a run's history and page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from runs.placing.changing import Change
from trainyard.formats.words import listed


def change_sentence(change: Change, num_before: int) -> str:
    """Say why the run is resized, and to how many nodes."""
    if change.leaving:
        are = "is" if len(change.leaving) == 1 else "are"
        return f"{_nodes(change.leaving)} {are} drained: {goes_on(num_before, change.num_nodes)}"
    if change.joining:
        are = "is" if len(change.joining) == 1 else "are"
        return f"{_nodes(change.joining)} {are} free: {goes_on(num_before, change.num_nodes)}"
    return f"T{goes_on(num_before, change.num_nodes)[1:]}"


def goes_on(num_before: int, number: int) -> str:
    """Say from how many nodes to how many."""
    if number == num_before:
        return f"the run moves, and stays on {_count(number)}"
    return f"the run {'grows' if number > num_before else 'shrinks'} from {num_before} to {_count(number)}"


def range_words(node_counts: Sequence[int] | None, number: int) -> str:
    """Say of an elastic run which of its numbers of nodes it has got; nothing of another."""
    if not node_counts:
        return ""
    return f" It trains on {_count(number)}; its spec asks for {node_counts[0]} to {node_counts[-1]}."


def _nodes(names: Sequence[str]) -> str:
    return f"{'Node' if len(names) == 1 else 'Nodes'} {listed(names)}"


def _count(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"
