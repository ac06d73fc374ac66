"""The clusters that a person sees, with their nodes and how full they are: read at once, whatever their number."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count

from runs.models import Cluster, HeldSlot, Node
from runs.presenting.server_state import contact_time
from runs.rights.access import Someone, nodes_of, visible_clusters, visible_runs
from runs.values.status import Status
from trainyard.grouping import grouped

UNREAD = ("inventory", "health", "self_check", "standby")  # documents, which no list shows


class Machines(NamedTuple):
    """A cluster with its nodes."""

    cluster: Cluster
    nodes: Sequence[Node]


class ClusterLine(NamedTuple):
    """A cluster and its load: slots held, free on nodes in contact, and runs that wait."""

    cluster: Cluster
    num_nodes: int
    num_away: int
    num_draining: int
    slots: int
    held: int
    free: int
    waiting: int


def machines_of(user: Someone) -> list[Machines]:
    clusters = list(visible_clusters(user).defer("settings", "secrets", "labels", "log_rules"))
    nodes = grouped((node.cluster_id, node) for node in nodes_of(clusters).defer(*UNREAD))
    return [Machines(cluster, nodes.get(cluster.pk, ())) for cluster in clusters]


def cluster_lines(user: Someone, machines: Sequence[Machines], now: datetime) -> list[ClusterLine]:
    clusters = [one.cluster.pk for one in machines]
    slots = HeldSlot.objects.filter(node__cluster__in=clusters).order_by()
    held = Counter(cluster for cluster, *_ in slots.values_list("node__cluster", "node", "index").distinct())
    queued = visible_runs(user).filter(status=Status.QUEUED, cluster__in=clusters).order_by()
    waiting = dict(queued.values_list("cluster").annotate(num=Count("pk")))
    known = contact_time(now)
    return [_line(one, held[one.cluster.pk], waiting.get(one.cluster.pk, 0), known) for one in machines]


def _line(one: Machines, held: int, waiting: int, known: datetime) -> ClusterLine:
    here = [node for node in one.nodes if node.is_in_contact(known)]
    return ClusterLine(
        cluster=one.cluster,
        num_nodes=len(one.nodes),
        num_away=len(one.nodes) - len(here),
        num_draining=sum(node.is_draining for node in one.nodes),
        slots=sum(node.slots for node in one.nodes),
        held=held,
        free=max(0, sum(node.slots for node in here if not node.is_draining) - held),
        waiting=waiting,
    )
