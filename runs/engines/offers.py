"""Rows of nodes for the machines that an engine may bring. A run is placed on them before their machines exist."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from runs import broadcast
from runs.engines.allocating import Offer
from runs.models import Allocation, Cluster, Node, Placement
from trainyard.contract.base import to_builtins
from trainyard.contract.keys import new_key
from trainyard.contract.machines import Gpu, Inventory

KEPT = timedelta(minutes=10)  # a node's key is good for so long after its machine left: records may be on their way
Kind = Node.Kind


def keep_offers(cluster: Cluster, offer: Offer) -> None:
    """Have as many rows that nobody uses as there are machines that nobody uses, each as the settings say."""
    free = list(_unused(cluster).order_by("joined_at", "pk"))
    num_used = Node.objects.registered().filter(cluster=cluster).count() - len(free)
    wanted = max(0, offer.num_machines - num_used)
    for node in free[wanted:]:
        with transaction.atomic():
            Cluster.objects.select_for_update().get(pk=cluster.pk)  # nothing is placed on it while we look
            _unused(cluster).filter(pk=node.pk).delete()
    inventory = _inventory(offer)
    changed = [node for node in free[:wanted] if node.slots != offer.slots or node.inventory != inventory]
    _unused(cluster).filter(pk__in=[node.pk for node in changed]).update(slots=offer.slots, inventory=inventory)
    for _ in range(wanted - len(free)):
        _make(cluster, offer.slots, inventory)


def _unused(cluster: Cluster) -> QuerySet[Node]:
    return Node.objects.filter(cluster=cluster, kind=Kind.OFFERED, removed_at=None, placements=None)


def _inventory(offer: Offer) -> dict[str, object]:
    gpus = [Gpu(index=index, name=offer.gpu) for index in range(offer.slots)] if offer.gpu else []
    document: dict[str, object] = to_builtins(Inventory(slots=offer.slots, gpus=gpus))
    return document


def _make(cluster: Cluster, slots: int, inventory: dict[str, object]) -> None:
    """Make one row under a name that no node has had."""
    for number in count(Node.objects.filter(cluster=cluster).count() + 1):
        name = f"{cluster.name[:40]}-{number}"
        try:
            with transaction.atomic():
                Node.objects.create(
                    cluster=cluster, name=name, key=new_key(), slots=slots, inventory=inventory, kind=Kind.OFFERED
                )
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
