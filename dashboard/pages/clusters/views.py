"""Clusters: how full they are, who holds which slot, who waits and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from dashboard.pages.clusters.boxes import NodeBox, boxes_of
from dashboard.pages.clusters.machines import MachinesView, machines_view
from dashboard.pages.clusters.queue import MAX_QUEUE, queue_rows
from dashboard.pages.shared.check_rows import CheckTable, check_table
from dashboard.pages.shared.frame import page, show
from dashboard.pages.shared.time_bar import TimeView, time_view
from runs.access import Someone, can_manage_clusters, can_run_on, nodes_of, visible_clusters, visible_runs
from runs.models import Cluster, Preflight
from runs.placing.queue import waiting_runs
from runs.preflight.nodes import checked_nodes
from runs.preflight.vetting import checks_together
from runs.presenting.server_state import contact_time
from runs.presenting.spares import num_ready
from runs.serving.certificates import Certificate, Served, Unreadable, served
from runs.time_use.sums import time_of_all


@dataclass(frozen=True)
class ClusterView:
    """A cluster as its card shows it."""

    cluster: Cluster
    boxes: Sequence[NodeBox]
    num_away: int
    num_draining: int
    num_slots: int
    num_held: int
    num_free: int  # on nodes that are in contact and not drained
    unit: str  # GPU or slot
    queue: list[SafeString]  # rows of the table
    num_waiting: int
    machines: MachinesView | None  # of an engine that brings nodes
    num_ready_spares: int  # idle nodes that have prepared what its runs would need
    time: TimeView | None  # of the runs on it that this person sees
    checks: CheckTable
    preflight: Preflight | None  # the newest that somebody asked for
    may_check: bool


@page()
def clusters(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    shown = list(visible_clusters(request.user))
    nodes = list(nodes_of(shown))
    boxes: defaultdict[str, list[NodeBox]] = defaultdict(list)
    for box in boxes_of(request.user, nodes, now):
        boxes[box.node.cluster_id].append(box)
    found = [describe(request.user, cluster, boxes[cluster.pk], now) for cluster in shown]
    context = {
        "clusters": sorted(found, key=lambda one: not one.boxes),  # those without nodes last
        "may_manage": can_manage_clusters(request.user),
        "tls": tls_view(),
    }
    return show(request, "nodes/clusters.html", context, fragments={"clusters": "nodes/_clusters.html"})


class TlsView(NamedTuple):
    """``problem``: a sentence where the certificates cannot be read."""

    served: Served | None
    authority: Certificate | None
    problem: str = ""


def tls_view() -> TlsView:
    try:
        found = served(settings.TLS_FOLDER) if settings.IS_TLS_SERVED else None
    except Unreadable as error:
        return TlsView(None, None, str(error))
    return TlsView(found, found.authorities[0] if found and found.authorities else None)


def describe(user: Someone, cluster: Cluster, boxes: Sequence[NodeBox], now: datetime) -> ClusterView:
    nodes = [box.node for box in boxes]
    usable = [box for box in boxes if not box.is_away and not box.node.is_draining]
    queue = queue_rows(user, cluster, now)
    runs = visible_runs(user).filter(cluster=cluster)
    return ClusterView(
        cluster=cluster,
        boxes=boxes,
        num_away=sum(box.is_away for box in boxes),
        num_draining=sum(node.is_draining for node in nodes),
        num_slots=sum(node.slots for node in nodes),
        num_held=sum(box.num_held for box in boxes),
        num_free=sum(max(0, box.node.slots - box.num_held) for box in usable),
        unit="GPU" if boxes and all(box.has_gpus for box in boxes) else "slot",
        queue=queue,
        num_waiting=waiting_runs(cluster).count() if len(queue) == MAX_QUEUE else len(queue),
        machines=machines_view(user, cluster),
        num_ready_spares=num_ready(box.node for box in boxes if not box.is_away),
        time=time_view(time_of_all(runs, now), "Where the time went"),
        checks=check_table(checks_together(checked_nodes(nodes, contact_time(now)))),
        preflight=cluster.preflights.filter(why=Preflight.Why.ASKED).first(),
        may_check=bool(nodes) and can_run_on(user, cluster),
    )
