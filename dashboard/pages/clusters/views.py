"""Clusters: how full they are, who holds which slot, who waits and why."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import Case, Count, Q, Sum, When
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import escape

from dashboard.pages.clusters.boxes import NodeBox, boxes_of
from dashboard.pages.shared import drawn, numbers
from dashboard.pages.shared.badges import Badge
from dashboard.pages.shared.drawn import address, age, clipped
from dashboard.pages.shared.frame import page, show
from dashboard.pages.shared.gauges import check_table, time_view
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.run_rows import run_url
from dashboard.pages.shared.sheet import Kind, Sheet
from runs.engines import allocating_engine
from runs.engines.allocating import has_pool
from runs.engines.cluster_settings.settings import Offer
from runs.life.preflight.needs import checked_nodes
from runs.life.preflight.vetting import checks_together
from runs.models import Allocation, Cluster, Node, Preflight, Run
from runs.models.indexes import first_rows
from runs.placing.queue import queue_of, waiting_runs
from runs.presenting.server_state import contact_time, num_ready
from runs.records.time_use.sums import time_of_all
from runs.rights import access
from runs.rights.access.operations import lists
from runs.serving.certificates import Unreadable, served
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.contract.machines import Health
from trainyard.grouping import grouped

STATES = (Badge("out of contact", "red", "status-lost"), Badge("draining", "amber", "drain"),
          Badge("in contact", "green", "check"), Badge("slow", "amber", "alert"))  # fmt: skip
MAX_JOBS = 50
MAX_QUEUE = 5


@page(get=lists(access.Permission.CLUSTERS_READ))
def clusters(request: HttpRequest) -> HttpResponse:
    if request.GET.get("view") == "table":
        return table(request)
    now = timezone.now()
    shown = list(access.visible_clusters(request.user))
    boxes = grouped((box.node.cluster_id, box) for box in boxes_of(request.user, list(access.nodes_of(shown)), now))
    found = [describe(request.user, cluster, boxes.get(cluster.pk, ()), now) for cluster in shown]
    context = {
        "clusters": sorted(found, key=lambda one: not one["boxes"]),  # those without nodes last
        "may_manage": access.can_manage_clusters(request.user),
        "tls": tls_view(),
    }
    return show(request, "nodes/clusters.html", context, fragments={"clusters": "nodes/_clusters.html"})


def tls_view() -> dict[str, object]:
    try:
        found = served(settings.TLS_FOLDER) if settings.IS_TLS_SERVED else None
    except Unreadable as error:
        return {"problem": str(error)}
    return {"served": found, "authority": found.authorities[0] if found and found.authorities else None}


def describe(user: access.Someone, cluster: Cluster, boxes: Sequence[NodeBox], now: datetime) -> dict[str, object]:
    nodes = [box.node for box in boxes]
    usable = [box for box in boxes if not box.is_away and not box.node.is_draining]
    return {
        "cluster": cluster,
        "boxes": boxes,
        "num_away": sum(box.is_away for box in boxes),
        "num_draining": sum(node.is_draining for node in nodes),
        "num_slots": sum(node.slots for node in nodes),
        "num_held": sum(box.num_held for box in boxes),
        "num_free": sum(max(0, box.node.slots - box.num_held) for box in usable),
        "unit": "GPU" if boxes and all(box.has_gpus for box in boxes) else "slot",
        "queue": queue_of(user, cluster, now)[:MAX_QUEUE],
        "num_waiting": waiting_runs(cluster).count(),
        "machines": machines_view(user, cluster),
        "num_ready_spares": num_ready(box.node for box in boxes if not box.is_away),
        "time": time_view(time_of_all(access.visible_runs(user).filter(cluster=cluster), now), "Where the time went"),
        "checks": check_table(checks_together(checked_nodes(nodes, contact_time(now)))),
        "preflight": cluster.preflights.filter(why=Preflight.Why.ASKED).first(),
        "may_check": bool(nodes) and access.can_run_on(user, cluster),
    }


# Machines that an engine may bring, and those that it has asked its system for.


def machines_view(user: access.Someone, cluster: Cluster) -> dict[str, object] | None:
    """Return None for a cluster whose nodes stay."""
    engine = allocating_engine(cluster.engine)
    if engine is None:
        return None
    offers = engine.offers(cluster)
    rows = Allocation.objects.filter(attempt__run__cluster=cluster).exclude(state=Allocation.State.OVER)
    allocations = first_rows(rows.select_related("attempt").order_by("created_at", "pk"), MAX_JOBS)
    seen = access.visible_runs(user).in_bulk([one.attempt.run_id for one in allocations])
    unused = Node.objects.filter(cluster=cluster, kind=Node.Kind.OFFERED, removed_at=None, placements=None)
    at = cluster.pool.get("asked_at")
    return {
        "engine": engine.label,
        "num_machines": sum(one.num_machines for one in offers),
        "slots": _slots(offers),
        "num_free": unused.aggregate(total=Sum("slots"))["total"] or 0,
        "jobs": [_line(one, seen.get(one.attempt.run_id)) for one in allocations],
        "pool": cluster.pool.get("sentence", "") if has_pool(cluster) else "",  # how many machines stay, and why
        "asked_at": datetime.fromtimestamp(at, UTC) if at else None,
    }


def _slots(offers: Sequence[Offer]) -> str:
    """Return ``"2 slots"``, or from how many to how many where machines differ."""
    numbers = sorted({offer.slots for offer in offers}) or [0]
    words = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"{words} slot{'' if numbers == [1] else 's'}"


def _line(allocation: Allocation, run: Run | None) -> dict[str, object]:
    """``run`` is None where it is of a project that this person does not see."""
    words = (allocation.problem or allocation.sentence) if run else ""
    about = {"job": allocation.job, "state": allocation.state, "since": allocation.created_at}
    return {**about, "run": run, "words": words, "hosts": ", ".join(map(str, allocation.hosts))}


# Nodes as a table.


def _state(box: NodeBox) -> str:
    state = 3 if box.slow and not box.is_away else 0 if box.is_away else 1 if box.node.is_draining else 2
    return drawn.titled(STATES[state], " ".join(box.slow))


def _runs(box: NodeBox) -> str:
    links = (
        f'<a class="quiet-link" tabindex="-1" href="{run_url(run.pk)}"><i class="swatch series-{colour}"></i>'
        f"{escape(run.name)}</a>"
        for run, colour in box.runs
    )
    return "".join(links) or ('<span class="muted">another project</span>' if box.num_held else drawn.NOTHING)


def _load(box: NodeBox) -> str:
    """How busy processors and GPUs are, and how full the memory is."""
    now = box.node.health_now or Health()
    gpus = [one.utilization_percent for one in now.gpus or [] if one.utilization_percent is not None]
    shares = {"CPU": now.cpu_percent, "GPU": sum(gpus) / len(gpus) if gpus else None}
    if now.memory_bytes and now.memory_used_bytes is not None:
        shares["memory"] = 100 * now.memory_used_bytes / now.memory_bytes
    words = (f"{name} {numbers.percent(share / 100)}" for name, share in shares.items() if share is not None)
    return f'<span class="{"stale" if box.is_away else ""}">{", ".join(words) or drawn.NOTHING}</span>'


KINDS: dict[str, Kind[NodeBox]] = {
    "name": Kind("Node", 180, lambda box: drawn.opener("node", box.node.name, box.node.name), sort="name", phone=""),
    "state": Kind("State", 136, _state, sort="state", phone="end"),
    "cluster": Kind("Cluster", 110, lambda box: clipped(box.node.cluster.name), sort="cluster__name"),
    "busy": Kind("Busy", 84, lambda box: f"{box.num_held} of {box.node.slots}", "num_held", True, ""),
    "slots": Kind("Slots", 200, lambda box: f'<div class="slots-grid">{box.slots}</div>', sort="slots", phone="wide"),
    "runs": Kind("Runs", 230, _runs),
    "load": Kind("Load", 220, _load),
    "version": Kind("Trainyard", 88, lambda box: clipped(box.node.version), sort="version"),
    "seen": Kind("Seen", 96, lambda box: f'<span class="muted">{age(box.node.seen_at)}</span>', sort="seen_at"),
}


def table(request: HttpRequest) -> HttpResponse:
    """Answer with the nodes of all clusters that whoever asks sees."""
    now = timezone.now()
    sheet = Sheet(request, "Nodes", "node", KINDS, Sort("name", False), kept={"view": "table"})
    seen = contact_time(now) - timedelta(seconds=CONTACT_LOST_S)
    state = Case(When(seen_at__gte=seen, is_draining=False, then=2), When(seen_at__gte=seen, then=1), default=0)
    found = access.nodes_of(access.visible_clusters(request.user)).annotate(state=state, num_held=Count("held_slots"))
    found = found.filter(Q(name__icontains=sheet.words) | Q(cluster__name__icontains=sheet.words))

    def rows_of(keys: Sequence[str]) -> list[tuple[GridRow, NodeBox]]:
        nodes = Node.objects.filter(pk__in=keys).select_related("cluster").in_bulk()
        boxes = boxes_of(request.user, [nodes[key] for key in keys if key in nodes], now)
        mine = {one for one in {box.node.cluster for box in boxes} if access.can_manage_cluster(request.user, one)}
        return [(_row(box.node, may_act=box.node.cluster in mine), box) for box in boxes]

    keys = found.order_by(*sheet.order, "pk").values_list("pk", flat=True)
    return sheet.show("nodes/table.html", keys, rows_of, {"title": "Nodes", "news": "nodes run ping"})


def _row(node: Node, *, may_act: bool) -> GridRow:
    verb = "enable" if node.is_draining else "drain"
    button = (
        f'<button class="btn btn-small" tabindex="-1" formaction="{address("node", node.name)}do/{verb}/"'
        f' aria-label="{verb.capitalize()} {escape(node.name)}">{verb.capitalize()}</button>'
    )
    return GridRow(node.pk, node.name, (), actions=button if may_act else "")
