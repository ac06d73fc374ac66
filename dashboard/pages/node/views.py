"""The page of one node: how it feels now and felt lately, what it is made of, what it trains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from dashboard.pages.clusters.boxes import boxes_of
from dashboard.pages.node.gauges import gauges
from dashboard.pages.node.isolation import isolation_of
from dashboard.pages.shared.check_rows import check_table
from dashboard.pages.shared.frame import answer, page, person, problems_of, refusal, show
from dashboard.pages.shared.numbers import size
from dashboard.pages.shared.run_rows import rows
from runs import actions
from runs.access import can_manage_cluster, get_node, visible_runs
from runs.metrics.node_health import node_history
from runs.models import Node
from runs.models.checks import Check
from runs.node_troubles import sentences_of
from runs.preflight.nodes import checked_nodes
from runs.preflight.vetting import checks_together
from runs.presenting.server_state import contact_time
from runs.presenting.spares import spare_sentence
from trainyard.contract.machines import Cpu

RANGES = (("30 min", 1800), ("3 h", 3 * 3600), ("24 h", 24 * 3600))
NUM_RUNS = 8


class Verb(NamedTuple):
    action: Callable[..., Any]
    sentence: str
    undo: str = ""
    leads_away: bool = False


VERBS = {
    "drain": Verb(actions.drain_node, "Draining {name}: nothing new is placed on it.", undo="enable"),
    "enable": Verb(actions.enable_node, "{name} takes runs again.", undo="drain"),
    "remove": Verb(actions.remove_node, "Removed {name}.", leads_away=True),
}


@page()
def node(request: HttpRequest, node_id: str) -> HttpResponse:
    found = get_node(request.user, node_id)
    now = timezone.now()
    seconds = next((span for _, span in RANGES if str(span) == request.GET.get("range")), RANGES[0][1])
    history = node_history(found.pk, since=now.timestamp() - seconds, until=now.timestamp())
    here = visible_runs(request.user).filter(attempts__placements__node=found).distinct()
    context = {
        "node": found,
        "box": boxes_of(request.user, [found], now)[0],
        "gauges": gauges(found.health_now, history, now.timestamp() - seconds, now.timestamp()),
        "facts": facts(found),
        "rows": rows(list(here[:NUM_RUNS])),
        "checks": check_table(checks_at(found, now)),
        "refused": sentences_of(found.pk),
        "spare_words": spare_sentence(found),
        "may_manage": can_manage_cluster(request.user, found.cluster),
        "most_slots": actions.most_slots(found),
        "isolation": isolation_of(found),
        "ranges": RANGES,
        "range": seconds,
    }
    return show(request, "nodes/node.html", context, fragments={"node": "nodes/_node.html"})


@page(methods=("POST",))
def do(request: HttpRequest, node_id: str, verb: str) -> HttpResponse:
    if verb not in VERBS:
        raise Http404(f"nodes have no verb {verb!r}")
    chosen = VERBS[verb]
    found = get_node(request.user, node_id, manage=True)
    chosen.action(actor=person(request), node=found)
    undo = reverse("do-node", args=(found.name, chosen.undo)) if chosen.undo else ""
    to = reverse("clusters") if chosen.leads_away else ""
    return answer(request, chosen.sentence.format(name=found.name), undo=undo, to=to, home="clusters")


@page(methods=("POST",))
def slots(request: HttpRequest, node_id: str) -> HttpResponse:
    found = get_node(request.user, node_id, manage=True)
    given = request.POST.get("slots", "").strip()
    wanted = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
    try:
        actions.set_slots(actor=person(request), node=found, slots=wanted)
    except ValidationError as error:
        return refusal(request, 422, " ".join(problems_of(error).values()))
    sentence = f"{found.name} has {found.slots} slot{'s'[: found.slots != 1]} now."
    return answer(request, sentence, home="clusters")


def facts(node: Node) -> list[tuple[str, str | int, str]]:
    """What the machine is made of: name, value, and how to show it (text or size)."""
    found = node.machine
    cpu = found.cpu or Cpu()
    pairs = [
        ("Host", found.hostname, "text"),
        ("Address", node.address, "text"),
        ("System", found.platform, "text"),
        ("Processor", cpu.model, "text"),
        ("Cores", cpu.count, "text"),
        ("Memory", found.memory_bytes, "size"),
        ("Disk", found.disk_bytes, "size"),
        ("Driver", found.driver, "text"),
        ("Python", found.python, "text"),
        ("PyTorch", found.torch, "text"),
        ("Trainyard", node.version, "text"),
        ("Environments by", ", ".join(found.tools or []), "text"),
    ]
    kinds = Counter((str(gpu.name), gpu.memory_bytes) for gpu in found.gpus or [])
    gpus = [("GPUs", f"{num} × {name}, {size(memory)} each", "text") for (name, memory), num in kinds.items()]
    return [(name, value, kind) for name, value, kind in [*gpus, *pairs] if value]


def checks_at(node: Node, now: datetime) -> list[Check]:
    """What the node, and others about it, report now."""
    members = checked_nodes(Node.objects.present().filter(cluster=node.cluster), contact_time(now))
    return [one for one in checks_together(members) if node.name in (one.node, one.peer)]
