"""Rows of nodes for the machines that an engine may bring. A run is placed on them before their machines exist."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from runs.engines.cluster_settings.settings import Offer
from runs.models import Allocation, Cluster, Node, Placement
from runs.serving import broadcast
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.keys import new_key
from trainyard.contract.machines import Gpu, Inventory

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
        able = sorted(machine for machine, number in left.items() if number > 0)
        if able:
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
