"""Clusters: how full they are, who holds which slot, who waits and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dashboard.pages.clusters.machines import MachinesView, machines_view
from dashboard.pages.shared.check_rows import CheckTable, check_table
from dashboard.pages.shared.frame import page, show
from dashboard.pages.shared.run_colours import colours_apart
from dashboard.pages.shared.time_bar import TimeView, time_view
from runs.access import Someone, can_manage_clusters, can_run_on, visible_clusters, visible_nodes, visible_runs
from runs.models import Attempt, Cluster, HeldSlot, Node, Preflight, Run
from runs.ordered import first_rows
from runs.placing.queue import waiting_runs
from runs.preflight.nodes import checked_nodes
from runs.preflight.vetting import checks_together
from runs.presenting.server_state import contact_time
from runs.presenting.spares import num_ready
from runs.serving.certificates import Certificate, Served, Unreadable, served
from runs.time_use.sums import time_of_all
from runs.watching.words import slow_sentences
from trainyard.formats.words import listed

MAX_SLOTS = 128  # squares drawn of one node; the rest is counted
MAX_QUEUE = 100


class Slot(NamedTuple):
    """One square. ``run`` is None where nobody holds it, or somebody whose project this person does not see."""

    number: int
    run: Run | None
    is_held: bool
    colour: int
    words: str


class NodeBox(NamedTuple):
    node: Node
    slots: list[Slot]
    num_hidden: int
    num_held: int
    is_away: bool
    runs: list[tuple[Run, int]]  # with the number of its series colour
    slow: list[str]  # sentences about ranks here that slow others down


class Waiter(NamedTuple):
    order: int
    run: Run | None
    num_nodes: int
    per_node: int
    accelerator: str
    reason: str
    since: datetime


@dataclass(frozen=True)
class ClusterView:
    """A cluster as its card shows it."""

    cluster: Cluster
    boxes: list[NodeBox]
    num_away: int
    num_draining: int
    num_slots: int
    num_held: int
    num_free: int  # on nodes that are in contact and not drained
    unit: str  # GPU or slot
    queue: list[Waiter]
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
    found = [describe(request.user, cluster, now) for cluster in visible_clusters(request.user)]
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


def describe(user: Someone, cluster: Cluster, now: datetime) -> ClusterView:
    nodes = list(visible_nodes(user).filter(cluster=cluster))
    boxes = boxes_of(user, nodes, now)
    usable = [box for box in boxes if not box.is_away and not box.node.is_draining]
    queue = _queue(user, cluster)
    return ClusterView(
        cluster=cluster,
        boxes=boxes,
        num_away=sum(box.is_away for box in boxes),
        num_draining=sum(box.node.is_draining for box in boxes),
        num_slots=sum(node.slots for node in nodes),
        num_held=sum(box.num_held for box in boxes),
        num_free=sum(max(0, box.node.slots - box.num_held) for box in usable),
        unit="GPU" if nodes and all(node.accelerator == "gpu" for node in nodes) else "slot",
        queue=queue,
        num_waiting=waiting_runs(cluster).count(),
        machines=machines_view(user, cluster),
        num_ready_spares=num_ready(box.node for box in boxes if not box.is_away),
        time=time_view(time_of_all(visible_runs(user).filter(cluster=cluster), now), "Where the time went"),
        checks=check_table(checks_together(checked_nodes(nodes, contact_time(now)))),
        preflight=cluster.preflights.filter(why=Preflight.Why.ASKED).first(),
        may_check=bool(nodes) and can_run_on(user, cluster),
    )


def boxes_of(user: Someone, nodes: Sequence[Node], now: datetime) -> list[NodeBox]:
    held = HeldSlot.objects.filter(node__in=nodes).values_list("node_id", "index", "placement__attempt__run_id")
    by_node: dict[str, dict[int, list[str]]] = {node.pk: {} for node in nodes}
    for node_id, index, run_id in held:
        by_node[node_id].setdefault(index, []).append(run_id)
    run_ids = {run_id for _, _, run_id in held}
    runs = {run.pk: run for run in visible_runs(user).filter(pk__in=run_ids)}
    in_order = sorted(runs.values(), key=lambda run: (run.created_at, run.pk))
    colours = {run_id: colour + 1 for run_id, colour in colours_apart(user, in_order).items()}
    slow = _slow(runs)
    return [_box(node, by_node[node.pk], runs, colours, slow[node.pk], now) for node in nodes]


def _slow(runs: Mapping[str, Run]) -> defaultdict[str, list[str]]:
    """Return sentences about slow ranks of these runs, by node."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for attempt in Attempt.objects.filter(run__in=list(runs), ended_at=None).exclude(slow_ranks=[]):
        ranks = sorted(attempt.stragglers, key=lambda one: (one.node_id, one.rank))
        for node_id, group in groupby(ranks, key=lambda one: one.node_id):
            sentences = slow_sentences(list(group), num_ranks=attempt.world_size)
            found[node_id].append(f"{runs[attempt.run_id].name}: {' '.join(sentences)}")
    return found


def _box(
    node: Node,
    held: dict[int, list[str]],
    runs: dict[str, Run],
    colours: dict[str, int],
    slow: list[str],
    now: datetime,
) -> NodeBox:
    slots = []
    for index in range(min(node.slots, MAX_SLOTS)):
        holding = [runs.get(run_id) for run_id in held.get(index, [])]
        run = next((one for one in holding if one is not None), None)
        names = dict.fromkeys(one.name if one else "a run of another project" for one in holding)
        words = f"slot {index}: {listed(list(names)) if holding else 'free'}"
        slots.append(Slot(index, run, index in held, colours.get(run.pk, 0) if run else 0, words))
    here = {run_id: runs[run_id] for holders in held.values() for run_id in holders if run_id in runs}
    return NodeBox(
        node=node,
        slots=slots,
        num_hidden=node.slots - len(slots),
        num_held=len(held),
        is_away=not node.is_in_contact(contact_time(now)),
        runs=[(run, colours[run.pk]) for run in here.values()],
        slow=slow,
    )


def _queue(user: Someone, cluster: Cluster) -> list[Waiter]:
    waiting = first_rows(waiting_runs(cluster).defer("estimate", "found_by"), MAX_QUEUE)
    seen = set(visible_runs(user).filter(pk__in=[run.pk for run in waiting]).values_list("pk", flat=True))
    queue = []
    for order, run in enumerate(waiting, start=1):
        resources = run.spec.get("resources", {})
        shown = run if run.pk in seen else None
        queue.append(
            Waiter(
                order=order,
                run=shown,
                num_nodes=run.num_nodes or 1,
                per_node=int(resources.get("processes_per_node", 1)),
                accelerator=str(resources.get("accelerator", "auto")),
                reason=run.reason_sentence if shown else "",
                since=run.created_at,
            )
        )
    return queue
