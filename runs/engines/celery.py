"""The engine whose nodes stay: each is a Celery worker that reads its own queue."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from django.utils import timezone

from runs.engines.control_hints import publish
from runs.engines.findings import Finding
from runs.engines.protocol import NOTHING, WantedOfPlacements
from runs.models import Attempt, Cluster, Node, Placement
from runs.placing.fitting import Room
from runs.placing.planning import rooms_of
from trainyard.contract.base import WireStruct
from trainyard.contract.desired import DesiredAttempt, Nudge
from trainyard.contract.inspections import Inspect, Question
from trainyard.contract.locks import lock
from trainyard.contract.machines import NodeSandbox
from trainyard.contract.seals import INSPECT, NUDGE, command_scope, node_queue, node_scope, seal


class CeleryEngine:
    label = "Celery"
    about = "Its nodes join once and stay."

    def capacity(self, cluster: Cluster, now: datetime) -> list[Room]:
        return rooms_of(list(Node.objects.present().filter(cluster=cluster).select_related("cluster")), now)

    def start(self, placements: Sequence[Placement], wanted: WantedOfPlacements) -> None:
        for placement in placements:
            self.nudge(placement.node, {placement.attempt_id: wanted[placement.pk]})

    def pending(self, attempt: Attempt) -> str:
        return ""

    def nudge(self, node: Node, attempts: Mapping[str, DesiredAttempt] = NOTHING) -> None:
        _command(node, NUDGE, Nudge(at=time.time(), attempts=dict(attempts)))

    def stop(self, attempt: Attempt) -> None:
        for placement in attempt.placements.select_related("node"):
            self.nudge(placement.node)

    def inspect(self, node: Node, question: Question) -> None:
        locked = lock(node.key, node_scope("question", node.pk), question)
        _command(node, INSPECT, Inspect(locked=locked.locked, at=time.time()))

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        nodes = list(Node.objects.present().filter(cluster=cluster))
        if not nodes:
            yield Finding("nodes", False, "The cluster has no node.", "“Add node” of the page prints the command.")
        for node in nodes:
            is_here = node.is_in_contact(timezone.now())
            words = f"{node.name} at {node.address} is {'in contact' if is_here else 'out of contact'}."
            advice = "" if is_here else "Start `trainyard node` there; its own lines say what keeps it."
            yield Finding("node", is_here, words, advice)
            yield _sandbox(node, cluster)


def _sandbox(node: Node, cluster: Cluster) -> Finding:
    """Return how far the node's ranks are kept apart, and what keeps it from more."""
    level, known = node.sandbox_level or 0, node.machine.sandbox or NodeSandbox()
    words = f"{node.name} has sandbox level {level}"
    words += f", in control groups below {known.cgroup}." if known.cgroup else ", without control groups."
    if level < cluster.isolation_minimum:
        why = " ".join(known.missing) or "Start its node worker as root, where namespaces are allowed."
        return Finding("sandbox", False, f"{words} The cluster asks for {cluster.isolation_minimum}.", why)
    return Finding("sandbox", True, words)


def _command(node: Node, task: str, document: WireStruct) -> None:
    publish(task, node_queue(node.name), seal(node.key, command_scope(task, node.pk), document))
