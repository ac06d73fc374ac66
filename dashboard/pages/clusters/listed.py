"""Nodes as a table."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from django.db.models import Case, Count, Q, When
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
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

AWAY = Badge("out of contact", "red", "status-lost")
DRAINING = Badge("draining", "amber", "drain")
SLOW = Badge("slow", "amber", "alert")
READY = Badge("in contact", "green", "check")


def _name(box: NodeBox) -> str:
    name = escape(box.node.name)
    return f'<a class="name clip" tabindex="-1" href="{address("node", name)}" title="{name}" data-open>{name}</a>'


def _state(box: NodeBox) -> str:
    if box.slow and not box.is_away:
        return drawn.titled(SLOW, " ".join(box.slow))
    return drawn.status(AWAY if box.is_away else DRAINING if box.node.is_draining else READY)


def _slots(box: NodeBox) -> str:
    more = f'<span class="xs muted">+{box.num_hidden}</span>' if box.num_hidden else ""
    return f'<div class="slots-grid">{box.slots}{more}</div>'


def _runs(box: NodeBox) -> str:
    links = (
        f'<a class="quiet-link" tabindex="-1" href="{run_url(run.pk)}"><i class="swatch series-{colour}"></i>'
        f"{escape(run.name)}</a>"
        for run, colour in box.runs
    )
    return "".join(links) or ('<span class="muted">another project</span>' if box.num_held else drawn.NOTHING)


def _machine(box: NodeBox) -> str:
    found = box.node.machine
    kinds = Counter(gpu.name or "GPU" for gpu in found.gpus or [])
    words = ", ".join(f"{num} × {name}" for name, num in kinds.items())
    return clipped(words or (found.cpu.model if found.cpu and found.cpu.model else "–"))


def _share(box: NodeBox, used: float | None, whole: float | None) -> str:
    share = used / whole if used is not None and whole else None
    return f'<span class="{"stale" if box.is_away else ""}">{numbers.percent(share)}</span>'


def _gpu(box: NodeBox) -> str:
    found = [one.utilization_percent for one in _health(box).gpus or [] if one.utilization_percent is not None]
    return _share(box, sum(found) if found else None, 100 * len(found))


def _health(box: NodeBox) -> Health:
    return box.node.health_now or Health()


KINDS: dict[str, Kind[NodeBox]] = {
    "name": Kind("Node", 180, _name, sort="name", phone=""),
    "state": Kind("State", 124, _state, sort="state", phone="end"),
    "cluster": Kind("Cluster", 110, lambda box: clipped(box.node.cluster.name), sort="cluster__name"),
    "busy": Kind("Busy", 90, lambda box: f"{box.num_held} of {box.node.slots}", "num_held", True, ""),
    "slots": Kind("Slots", 180, _slots, sort="slots", phone="wide"),
    "runs": Kind("Runs", 220, _runs),
    "cpu": Kind("CPU", 64, lambda box: _share(box, _health(box).cpu_percent, 100), "", True),
    "memory": Kind(
        "Memory", 76, lambda box: _share(box, _health(box).memory_used_bytes, _health(box).memory_bytes), "", True, ""
    ),
    "gpu": Kind("GPU", 64, _gpu, "", True),
    "machine": Kind("Machine", 190, _machine),
    "version": Kind("Trainyard", 88, lambda box: clipped(box.node.version), sort="version"),
    "seen": Kind("Seen", 96, lambda box: f'<span class="muted">{age(box.node.seen_at)}</span>', sort="seen_at"),
}


def table(request: HttpRequest) -> HttpResponse:
    """Answer with the nodes of all clusters that whoever asks sees."""
    now, words = timezone.now(), request.GET.get("q", "").strip()[:200]
    seen = contact_time(now) - timedelta(seconds=CONTACT_LOST_S)
    state = Case(When(seen_at__gte=seen, is_draining=False, then=2), When(seen_at__gte=seen, then=1), default=0)
    found = nodes_of(visible_clusters(request.user)).annotate(state=state, num_held=Count("held_slots"))
    if words:
        found = found.filter(Q(name__icontains=words) | Q(cluster__name__icontains=words))
    sheet = Sheet(request, "Nodes", "node", KINDS, Sort("name", False), kept={"view": "table", "q": words})

    def rows_of(keys: Sequence[str]) -> list[tuple[GridRow, NodeBox]]:
        nodes = Node.objects.filter(pk__in=keys).select_related("cluster").in_bulk()
        boxes = boxes_of(request.user, [nodes[key] for key in keys if key in nodes], now)
        mine = {one.pk: can_manage_cluster(request.user, one) for one in {box.node.cluster for box in boxes}}
        return [
            (GridRow(one.node.pk, one.node.name, (), actions=_verb(one.node) if mine[one.node.cluster.pk] else ""), one)
            for one in boxes
        ]

    keys = found.order_by(*sheet.order, "pk").values_list("pk", flat=True)
    context = {"title": "Nodes", "q": words, "news": "nodes run ping"}
    return sheet.show("nodes/table.html", keys, rows_of, context)


def _verb(node: Node) -> str:
    verb = "enable" if node.is_draining else "drain"
    return (
        f'<button class="btn btn-small" tabindex="-1" formaction="{reverse("do-node", args=(node.name, verb))}"'
        f' aria-label="{verb.capitalize()} {escape(node.name)}">{verb.capitalize()}</button>'
    )
