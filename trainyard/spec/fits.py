"""Check that a cluster could ever hold a run. A pure function on plain values; busy nodes count as free ones."""

from collections.abc import Iterable
from typing import Protocol

from pydantic import ValidationError

from trainyard.spec.models import Spec
from trainyard.spec.problems import Problem
from trainyard.spec.sections.resources import Resources


class NodeRoom(Protocol):
    """A node as far as it matters here."""

    @property
    def slots(self) -> int: ...

    @property
    def accelerator(self) -> str: ...


def check_fits(spec: Spec, nodes: Iterable[NodeRoom]) -> list[Problem]:
    """Return why ``spec`` can never start on ``nodes`` or nothing.

    Counts every registered node, offline and drained ones too. A cluster without nodes may still get some: nothing
    is said. All nodes of a run have the same kind of accelerator.
    """
    return _problems(spec.resources, list(nodes))


def check_room(resources: object, nodes: Iterable[NodeRoom]) -> list[Problem]:
    """Return the same of the ``resources`` of a document that is no valid spec; nothing where they say nothing."""
    try:
        return _problems(Resources.model_validate({} if resources is None else resources), list(nodes))
    except ValidationError:
        return []


def _problems(resources: Resources, nodes: list[NodeRoom]) -> list[Problem]:
    if not nodes:
        return []
    wanted, each, kind = resources.least_nodes, resources.processes_per_node, resources.accelerator
    of_kind = [node for node in nodes if kind in ("auto", node.accelerator)]
    if not of_kind:
        return [Problem("resources.accelerator", f"{kind} is on none of the {len(nodes)} nodes of this cluster")]
    words = "" if kind == "auto" else f"{kind} "
    largest = max(int(node.slots) for node in of_kind)
    if each > largest:
        slots = "slot" if largest == 1 else "slots"
        message = f"{each} is more than any {words}node of this cluster has: at most {largest} {slots}"
        return [Problem("resources.processes_per_node", message)]
    kinds = {node.accelerator for node in of_kind}
    most = max(sum(node.accelerator == one and int(node.slots) >= each for node in of_kind) for one in kinds)
    if wanted > most:
        alike = f" of one kind ({' or '.join(sorted(kinds))})" if len(kinds) > 1 else ""
        slots = "slot" if each == 1 else "slots"
        message = f"{wanted} is more than this cluster has: {most} {words}nodes{alike} with {each} {slots} or more"
        return [Problem("resources.nodes.min" if resources.is_elastic else "resources.nodes", message)]
    return []
