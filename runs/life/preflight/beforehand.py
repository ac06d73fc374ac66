"""Runs with ``preflight: always`` begin only on nodes that have just passed a check for them.

Each second's round of placing asks again: where a placement is not covered by a fresh check, one is asked for, and the
run keeps its room until it has ended. A node that fails it is left out until the check is old, and then checked anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max

from runs.life.preflight.needs import CheckedNode
from runs.models import Cluster, HeldSlot, Node, Preflight, Run
from runs.placing.fitting import Placed, Waiting
from runs.serving import broadcast
from runs.values.columns import CheckState
from runs.values.status import WaitCode
from trainyard.formats.words import listed

FRESH_S = 60.0  # the greatest age of a check when the run is placed
MAX_COLLECTIVE = 64  # nodes of one collective
# Checks made only on demand. A node reports the others all the time.
ON_DEMAND = ("collective", "contact")  # a failure of a node: in a collective, or it did not answer


class Beforehand:
    """Results of the newest checks, for placements of runs with ``preflight: always``."""

    def __init__(self, run_ids: Sequence[str], nodes: Mapping[str, CheckedNode], now: datetime) -> None:
        self._nodes = nodes
        # Since when each run waits for its next attempt: checks from before that do not count.
        rows = Run.objects.filter(pk__in=run_ids).annotate(last=Max("attempts__ended_at"))
        self._since = {pk: last or made for pk, last, made in rows.values_list("pk", "last", "created_at")}
        fresh = Preflight.objects.filter(why=Preflight.Why.ASKED, ended_at__gt=now - timedelta(seconds=FRESH_S))
        clusters = Run.objects.filter(pk__in=run_ids).values("cluster")
        self._fresh = list(fresh.filter(cluster__in=clusters).order_by("-created_at"))

    def problems_of(self, placed: Placed) -> dict[str, str]:
        """Return the nodes, by id, that failed their newest fresh check, each with the sentence of the failure."""
        found: dict[str, str] = {}
        for node in self._reachable(placed):
            newest = next((one for one in self._fresh if node.id in one.nodes), None)
            checks = newest.checks if newest is not None else []
            asked = [one for one in checks if one.node == node.name and one.name in ON_DEMAND]
            if failed := [one.sentence for one in asked if one.state != CheckState.OK]:
                found[node.id] = failed[0]
        return found

    def is_covered(self, placed: Placed) -> bool:
        """Return whether one check of all the nodes together began after the run had begun to wait. Nodes that an
        engine brings for the run are left out: they cannot be checked before they join."""
        ids = {node.id for node in self._reachable(placed)}
        since = self._since[placed.run]
        return not ids or any(ids <= set(one.nodes) and one.created_at >= since for one in self._fresh)

    def waiting(self, placed: Placed) -> Waiting:
        names = listed([node.name for node in self._reachable(placed)])
        sentence = f"{names} check themselves before it starts (preflight: always)."
        return Waiting(placed.run, WaitCode.CHECKS, sentence, has_claim=True)

    def _reachable(self, placed: Placed) -> list[CheckedNode]:
        found = (self._nodes.get(part.node) for part in placed.parts)
        return [node for node in found if node is not None and node.is_in_contact and node.own is not None]


def check_beforehand(cluster: Cluster, node_ids: Iterable[str], now: datetime) -> None:
    """Have these nodes check themselves now, unless a check of the cluster is under way."""
    with transaction.atomic():
        Cluster.objects.select_for_update().get(pk=cluster.pk)
        if cluster.preflights.filter(ended_at=None).exists():
            return
        nodes = list(Node.objects.present().filter(pk__in=list(node_ids)))
        Preflight.objects.create(
            cluster=cluster,
            why=Preflight.Why.ASKED,
            nodes=sorted(node.pk for node in nodes),
            collective=idle_nodes(nodes, now),
            created_at=now,
        )
        transaction.on_commit(broadcast.nodes_changed)


def idle_nodes(nodes: Sequence[Node], now: datetime) -> list[str]:
    """Return the ids of the nodes that train nothing, so that a collective disturbs nobody; none where there is only
    one."""
    busy = set(HeldSlot.objects.filter(node__in=nodes).values_list("node_id", flat=True))
    able = [one for one in nodes if one.pk not in busy and one.is_in_contact(now) and one.machine.torch]
    found = [one.pk for one in sorted(able, key=lambda one: one.name)][:MAX_COLLECTIVE]
    return found if len(found) > 1 else []
