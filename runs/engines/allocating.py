"""The base of engines that bring nodes: each attempt gets machines of its own, which leave with it.

The engine's system is asked in threads of control (``allocations``), never in a tick. What it answered stands in
the rows of ``Allocation``, and everything here reads those.
"""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from runs.engines.celery import NOTHING, CeleryEngine, WantedOfPlacements
from runs.engines.cluster_settings.settings import Offer, Settings
from runs.engines.findings import Finding, machines, probe_of
from runs.engines.machine_system import MachineSystem, origin_of
from runs.engines.refusals import needed, until_failed
from runs.models import Allocation, Attempt, Cluster, Node, Placement
from runs.placing.fitting import Room
from runs.placing.planning import room_of, rooms_of
from runs.serving import broadcast
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.desired import DesiredAttempt
from trainyard.contract.machines import Gpu, Inventory
from trainyard.contract.seals import new_key

changed = threading.Event()  # something of an allocation, in this process: its systems are asked now


class AllocatingEngine(CeleryEngine, ABC):
    """An engine that brings nodes. Once they have joined they are reached as all others: a message to their queue."""

    about = "It brings machines for each run, which leave with it."
    settings_type: type[Settings]  # of its clusters
    access: tuple[str, str]  # the step of `trainyard doctor` for what lets us in, and what to mend there

    def checked(self, document: JsonObject) -> JsonObject:
        """Return the settings of a cluster as they are kept. Raises SettingsError."""
        return self.settings_type.checked(document, self.label)

    def offers(self, cluster: Cluster) -> Sequence[Offer]:
        """Return what runs may be placed on, one for each kind of machine."""
        return self.settings_type.of(cluster.settings).offers()

    @abstractmethod
    def system(self, cluster: Cluster) -> MachineSystem:
        """Raises SystemAway where nothing lets us in."""

    def examine(self, cluster: Cluster) -> Iterator[Finding]:
        yield from until_failed(self._steps(cluster))

    def _steps(self, cluster: Cluster) -> Iterator[Finding]:
        with needed(*self.access):
            system = self.system(cluster)
        yield from system.steps(probe_of(origin_of(cluster).server))

    def examine_billed(self, cluster: Cluster) -> Iterator[Finding]:
        """Yield the steps of ``examine`` that cost money: they are done on request alone."""
        return iter(())

    def capacity(self, cluster: Cluster, now: datetime) -> list[Room]:
        registered = Node.objects.registered().filter(cluster=cluster)
        if has_pool(cluster):  # what may still come is full until it has joined
            rooms = rooms_of(list(registered.filter(kind=Kind.STAYS)), now)
            return rooms + [replace(one, free=()) for one in offered_rooms(cluster)]
        nodes = list(registered.exclude(kind=Kind.STAYS))
        taken = dict(Placement.objects.filter(node__in=nodes).values_list("node_id", "attempt__allocation__problem"))
        return [
            replace(
                room_of(node, cluster.topology),
                free=() if node.pk in taken else tuple(range(node.slots)),
                trouble=taken.get(node.pk) or "",
            )
            for node in nodes
        ]

    def start(self, placements: Sequence[Placement], wanted: WantedOfPlacements) -> None:
        if has_pool(placements[0].node.cluster):
            return super().start(placements, wanted)
        for attempt in {placement.attempt_id for placement in placements}:
            Allocation.objects.get_or_create(attempt_id=attempt)
        changed.set()

    def pending(self, attempt: Attempt) -> str:
        allocation = Allocation.objects.filter(attempt=attempt).first()
        if allocation is not None and allocation.state == Allocation.State.OVER:
            return ""
        nodes = [placement.node for placement in attempt.placements.select_related("node")]
        missing = [node for node in nodes if node.kind == Node.Kind.OFFERED or node.seen_at is None]
        if not missing:
            return ""
        if allocation is None:
            return f"Asking {self.label} for {machines(len(nodes))}."
        if allocation.problem:
            return f"{allocation.problem} It is asked again every few seconds."
        if allocation.state == Allocation.State.RUNNING:
            where = f" on {', '.join(allocation.hosts)}" if allocation.hosts else ""
            joined = f"{len(nodes) - len(missing)} of {len(nodes)} nodes have joined"
            return f"{self.label} job {allocation.job} runs{where}; {joined}."
        return allocation.sentence or f"Asking {self.label} for {machines(len(nodes))}."

    def nudge(self, node: Node, attempts: Mapping[str, DesiredAttempt] = NOTHING) -> None:
        if node.kind in (Node.Kind.STAYS, Node.Kind.BROUGHT):
            super().nudge(node, attempts)

    def stop(self, attempt: Attempt) -> None:
        super().stop(attempt)
        changed.set()


def has_pool(cluster: Cluster) -> bool:
    """Return whether machines that its engine brings stay between runs."""
    return bool(cluster.settings.get("pool_idle"))


def offered_rooms(cluster: Cluster) -> list[Room]:
    return [room_of(node, cluster.topology) for node in _unused(cluster).order_by("joined_at", "pk")]


KEPT = timedelta(minutes=10)  # a node's key is good for so long after its machine left: records may be on their way
Kind = Node.Kind
Machine = tuple[int, str]  # its slots, and the kind of its GPUs


def keep_offers(cluster: Cluster, offers: Sequence[Offer]) -> None:
    """Have as many rows that nobody uses as there are machines that nobody uses, each as the settings say."""
    missing = _unused_machines(cluster, offers)
    others = []
    for node in _unused(cluster).order_by("joined_at", "pk"):
        if missing[_machine_of(node)] > 0:
            missing[_machine_of(node)] -= 1
        else:
            others.append(node)
    machines = list(missing.elements())
    for node in others[len(machines) :]:
        with transaction.atomic():
            Cluster.objects.select_for_update().get(pk=cluster.pk)  # nothing is placed on it while we look
            _unused(cluster).filter(pk=node.pk).delete()
    for node, machine in zip(others, machines, strict=False):
        _unused(cluster).filter(pk=node.pk).update(**_columns_of(machine))
    for machine in machines[len(others) :]:
        _make(cluster, machine)


def _unused_machines(cluster: Cluster, offers: Sequence[Offer]) -> Counter[Machine]:
    """Return the offered machines without those in use. Which one a row in use stands for is judged by its slots."""
    left: Counter[Machine] = Counter()
    for offer in offers:
        left[offer.slots, offer.gpu] += offer.num_machines
    unused = _unused(cluster).values("pk")
    used = Node.objects.registered().filter(cluster=cluster).exclude(pk__in=unused).order_by("-slots")
    for slots in used.values_list("slots", flat=True):
        if able := sorted(machine for machine, number in left.items() if number > 0):
            left[next((machine for machine in able if machine[0] >= slots), able[-1])] -= 1
    return left


def _unused(cluster: Cluster) -> QuerySet[Node]:
    return Node.objects.filter(cluster=cluster, kind=Kind.OFFERED, removed_at=None, placements=None)


def _machine_of(node: Node) -> Machine:
    gpus = node.machine.gpus
    return node.slots, (gpus[0].name or "") if gpus else ""


def _columns_of(machine: Machine) -> JsonObject:
    slots, gpu = machine
    gpus = [Gpu(index=index, name=gpu) for index in range(slots)] if gpu else []
    return {"slots": slots, "inventory": to_builtins(Inventory(slots=slots, gpus=gpus))}


def _make(cluster: Cluster, machine: Machine) -> None:
    """Make one row under a name that no node has had."""
    for number in count(Node.objects.filter(cluster=cluster).count() + 1):
        name = f"{cluster.name[:40]}-{number}"
        try:
            with transaction.atomic():
                made = {"key": new_key(), "kind": Kind.OFFERED, **_columns_of(machine)}
                Node.objects.create(cluster=cluster, name=name, **made)
            return
        except IntegrityError:  # a name is taken; the next one
            continue


def leave(allocation: Allocation) -> None:
    """Take the nodes of machines that are gone out of all lists."""
    placed = Placement.objects.filter(attempt=allocation.attempt_id).values("node")
    if Node.objects.filter(pk__in=placed, kind__in=(Kind.OFFERED, Kind.BROUGHT)).update(kind=Kind.LEFT):
        broadcast.nodes_changed()


def forget_left(cluster: Cluster, now: datetime) -> None:
    """End the keys of nodes that left a while ago. Their names stay in the history of their runs."""
    left = Node.objects.filter(cluster=cluster, kind=Kind.LEFT, removed_at=None)
    recent = Q(placements__attempt__ended_at=None) | Q(placements__attempt__allocation__over_at__gt=now - KEPT)
    for node in left.exclude(recent):
        node.removed_at, node.key = now, new_key()
        node.save(update_fields=["removed_at", "key"])
