"""Nodes as a table."""

from collections.abc import Sequence
from datetime import timedelta

from django.db.models import Case, Count, Q, When
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import escape

from dashboard.pages.clusters.boxes import NodeBox, boxes_of
from dashboard.pages.shared import drawn, numbers
from dashboard.pages.shared.badges import Badge
from dashboard.pages.shared.drawn import address, age, clipped
from dashboard.pages.shared.grid import GridRow, Sort
from dashboard.pages.shared.run_rows import run_url
from dashboard.pages.shared.sheet import Kind, Sheet
from runs.models import Node
from runs.presenting.server_state import contact_time
from runs.rights.access import can_manage_cluster, nodes_of, visible_clusters
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.contract.machines import Health

STATES = (Badge("out of contact", "red", "status-lost"), Badge("draining", "amber", "drain"),
          Badge("in contact", "green", "check"), Badge("slow", "amber", "alert"))  # fmt: skip


def _state(box: NodeBox) -> str:
    is_slow = box.slow and not box.is_away
    state = 3 if is_slow else 0 if box.is_away else 1 if box.node.is_draining else 2
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
    found = nodes_of(visible_clusters(request.user)).annotate(state=state, num_held=Count("held_slots"))
    found = found.filter(Q(name__icontains=sheet.words) | Q(cluster__name__icontains=sheet.words))

    def rows_of(keys: Sequence[str]) -> list[tuple[GridRow, NodeBox]]:
        nodes = Node.objects.filter(pk__in=keys).select_related("cluster").in_bulk()
        boxes = boxes_of(request.user, [nodes[key] for key in keys if key in nodes], now)
        mine = {one for one in {box.node.cluster for box in boxes} if can_manage_cluster(request.user, one)}
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
