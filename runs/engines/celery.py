"""The engine whose nodes stay: each is a Celery worker that reads its own queue."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from django.utils import timezone

from runs.engines.control_hints import publish
from runs.engines.findings import Finding
from runs.models import Attempt, Cluster, Node, Placement
from runs.placing.fitting import Room
from runs.placing.planning import rooms_of
from trainyard.contract.base import WireStruct
from trainyard.contract.desired import DesiredAttempt, Nudge
from trainyard.contract.inspections import Inspect, Question
from trainyard.contract.locks import lock
from trainyard.contract.machines import NodeSandbox
from trainyard.contract.seals import INSPECT, NUDGE, command_scope, node_queue, node_scope, seal

WantedOfPlacements = Mapping[int, DesiredAttempt]  # by placement
NOTHING: Mapping[str, DesiredAttempt] = MappingProxyType({})


class CeleryEngine:
    """Has the nodes of a cluster look at what is wanted of them; base of the engines that bring nodes. Scheduling and
    reconciling use these methods and nothing behind them.

    State documents are the truth: what a node is to do stands in its ``Desired``, which control writes right before or
    after it calls a method here, and what a node does stands in its ``NodeStatus`` and in the reports. Messages of an
    engine are hints. Each may be lost or come twice, so every method is idempotent, and none raises because a machine
    or a broker is away: control calls again, or the node reads its document by itself within a second.

    An engine whose nodes stay has only messages to send. One that brings nodes asks its own system for machines, on
    each of which it starts ``trainyard node --for-attempt``; there the node joins, serves the attempt as any other node
    does, and leaves.
    """

    label = "Celery"  # its name, or that of its system, in sentences
    about = "Its nodes join once and stay."  # one sentence, beside the choice of engines

    def capacity(self, cluster: Cluster, now: datetime) -> list[Room]:
        """Return the nodes of the cluster with their slots, those that are held and those that are free. An engine that
        brings nodes offers what its system may give, as rows of nodes that have not joined yet."""
        return rooms_of(list(Node.objects.present().filter(cluster=cluster).select_related("cluster")), now)

    def start(self, placements: Sequence[Placement], wanted: WantedOfPlacements) -> None:
        """An attempt was placed on these nodes: have them prepare it now. ``wanted`` is what their documents will say.
        An engine that brings nodes asks its system for these machines here, with a token bound to the attempt."""
        for placement in placements:
            self.nudge(placement.node, {placement.attempt_id: wanted[placement.pk]})

    def pending(self, attempt: Attempt) -> str:
        """Return why nodes of an attempt are not there yet, as a sentence; empty where none is waited for. Asked until
        the attempt goes. While it answers, silence of the nodes means nothing."""
        return ""

    def nudge(self, node: Node, attempts: Mapping[str, DesiredAttempt] = NOTHING) -> None:
        """Have the node read its document now: what is wanted of it has changed. ``attempts``, by id, is what the
        document says of those that cannot wait."""
        _command(node, NUDGE, Nudge(at=time.time(), attempts=dict(attempts)))

    def stop(self, attempt: Attempt) -> None:
        """Ranks of the attempt are to end, or it has ended: have its nodes read that now. An engine that brings nodes
        gives its machines back once all have reported their end, or cannot be reached."""
        for placement in attempt.placements.select_related("node"):
            self.nudge(placement.node)

    def inspect(self, node: Node, question: Question) -> None:
        """Have the node look at a dataset. Control repeats it until the node's status lists the question."""
        locked = lock(node.key, node_scope("question", node.pk), question)
        _command(node, INSPECT, Inspect(locked=locked.locked, at=time.time()))

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        """Yield step by step what keeps the cluster from training, for `trainyard doctor`. It may take a minute."""
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
