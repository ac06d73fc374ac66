"""Runs and nodes that need a person, each with the reason in one line and the one action that helps."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.urls import reverse

from dashboard.pages.home.load import Machines
from dashboard.pages.shared.run_rows import Row
from runs.models import Cluster, Node, Run
from runs.models.indexes import is_none, one_of
from runs.presenting.server_state import contact_time
from runs.values.status import Status
from trainyard.formats.words import listed

LATELY = timedelta(hours=24)
WAITS_LONG = timedelta(minutes=10)
MAX_NAMED = 4  # nodes of a cluster
SEVERITY = ("red", "rust", "amber", "grey")


class Need(NamedTuple):
    row: Row
    sentence: str
    colour: str
    verb: str  # a verb of run_verbs, or "" where looking is what helps
    label: str


class Away(NamedTuple):
    """Nodes of a cluster that are out of contact and that nobody drains."""

    cluster: Cluster
    nodes: list[Node]
    names: str
    sentence: str
    since: datetime | None  # the last word of any of them

    @property
    def url(self) -> str:
        """The page of the one node, else of all clusters."""
        return reverse("node", args=(self.nodes[0].pk,)) if len(self.nodes) == 1 else reverse("clusters")


def failed_lately(runs: QuerySet[Run], now: datetime) -> QuerySet[Run]:
    """Runs that failed within a day and that nobody has restarted or archived since."""
    return runs.filter(one_of("status", [Status.FAILED]), ended_at__gte=now - LATELY).order_by("-ended_at", "-pk")


def troubled_runs(runs: QuerySet[Run], now: datetime) -> QuerySet[Run]:
    """Live runs whose row says that they need a person, the longest first, however many others there are."""
    waits_long = one_of("status", [Status.QUEUED]) & Q(created_at__lt=now - WAITS_LONG)
    is_troubled = one_of("status", [Status.LOST, Status.RECOVERING]) | waits_long
    return runs.filter(is_troubled, is_none("local_id"), ended_at=None).order_by("created_at", "pk")


def away_nodes(machines: Sequence[Machines], now: datetime) -> list[Away]:
    """Nodes that do not answer, by cluster. A drained node may be switched off, and of one that an engine brought its
    run says what is missing."""
    known = contact_time(now)
    found = [(one.cluster, [node for node in one.nodes if _is_away(node, known)]) for one in machines]
    return [_away(cluster, nodes) for cluster, nodes in found if nodes]


def _is_away(node: Node, known: datetime) -> bool:
    return not node.is_draining and node.kind == Node.Kind.STAYS and not node.is_in_contact(known)


def _away(cluster: Cluster, nodes: list[Node]) -> Away:
    names = [node.name for node in nodes]
    seen = [node.seen_at for node in nodes if node.seen_at is not None]
    shown = listed(names, at_most=MAX_NAMED)
    them = "it" if len(nodes) == 1 else "them"
    sentence = f"Out of contact with the server: nothing is started on {them}." if seen else "Never in contact so far."
    return Away(cluster, nodes, shown, sentence, max(seen, default=None))


def needs_of(live: list[Row], failed: list[Row], now: datetime) -> list[Need]:
    found = [
        Need(row, row.run.reason_sentence, "red", *(("", "") if row.run.is_local else ("restart", "Restart")))
        for row in failed
    ]
    found += [need for row in live if (need := _need(row, now)) is not None]
    return sorted(found, key=lambda need: SEVERITY.index(need.colour))


def _need(row: Row, now: datetime) -> Need | None:
    run = row.run
    if run.is_local:  # its end comes with the next sync, or never: nothing to be alarmed about
        return None if run.status == Status.RUNNING else Need(row, run.reason_sentence, "grey", "give-up", "Give up")
    if run.status == Status.LOST:
        return Need(row, run.reason_sentence, "rust", "give-up", "Give up")
    if run.status == Status.RECOVERING:
        return Need(row, run.reason_sentence, "amber", "", "")
    if run.status == Status.QUEUED and now - run.created_at > WAITS_LONG:
        return Need(row, run.reason_sentence, "grey", "stop", "Cancel")
    for lamp in row.lamps:
        if run.status == Status.RUNNING and lamp["colour"] == "red":
            return Need(row, lamp["sentence"], "amber", "", "")
    return None
