"""Spare nodes: idle nodes that prepare what the cluster's runs would need there, before one of their nodes is lost."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef

from runs.models import Cluster, Node, Run, bundle_of
from runs.values.status import Status
from trainyard.contract.desired import StandbyRun
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.contract.orders import CodeReference
from trainyard.spec.sections.restarts import RestartRules

MAX_RUNS = 20  # the newest of a cluster: a node prepares no more
LIVE = (Status.STARTING, Status.RUNNING, Status.RECOVERING)


def standby_of(nodes: Iterable[Node], now: datetime) -> dict[str, list[StandbyRun]]:
    """Return by node id, of the spare ones among ``nodes``, the runs that may need it."""
    live = Run.objects.filter(cluster=OuterRef("pk"), status__in=LIVE)
    wanted = Cluster.objects.filter(Exists(live), pk__in={node.cluster_id for node in nodes}, spares__gt=0)
    found: dict[str, list[StandbyRun]] = {}
    for cluster in wanted:
        if (spares := spare_nodes(cluster, now)) and (runs := _runs(cluster)):
            found |= {node.pk: runs for node in spares}
    return found


def spare_nodes(cluster: Cluster, now: datetime) -> list[Node]:
    """Return the idle nodes that prepare: those on which a run would be placed first."""
    seen_at = now - timedelta(seconds=CONTACT_LOST_S)
    usable = Node.objects.present().filter(cluster=cluster, is_draining=False, seen_at__gte=seen_at)
    return list(usable.filter(held_slots=None).order_by("slots", "name")[: cluster.spares])


def _runs(cluster: Cluster) -> list[StandbyRun]:
    """Return the live runs that are started again when they lose a node."""
    live = Run.objects.filter(cluster=cluster, status__in=LIVE).order_by("-created_at", "-pk")[:MAX_RUNS]
    return [_standby(run) for run in live if RestartRules.of(run.spec).max > 0]


def _standby(run: Run) -> StandbyRun:
    task = run.spec.get("task", {})
    sha256 = bundle_of(run)
    return StandbyRun(run=run.pk, code=CodeReference(sha256) if sha256 else None, python=task.get("python") or "")
