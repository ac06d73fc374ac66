"""Rows as scheduling's plain values: who waits for a cluster, and what room its nodes have. Used by control, which
places the queue, and by pages, which say beforehand what would happen."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from django.db.models import QuerySet

from runs.models import Cluster, HeldSlot, Placement, Run
from runs.models.runs import counts_up_to, size_of
from runs.placing.admission import refused, terms_of
from runs.placing.conditions import why_not_yet
from runs.placing.ends import History, ends_of, lasts_of, with_ends
from runs.placing.fitting import Placed, Request, Room, Waiting
from runs.placing.forecasting import Hold, starts
from runs.placing.policies import ordered, policy_of
from runs.placing.scheduling import place
from runs.placing.spans import Span
from runs.placing.usage import standings_of
from runs.rights.access import Someone, visible_runs
from runs.values.status import Status, Wanted
from trainyard.contract.base import SpecDocument

MAX_LISTED = 1_000  # of a queue, the first, that pages have
MAX_TIMED = 300  # of it, the first: how long they last, and when they start, is worked out
MAX_RESTARTED = 500  # of a queue, whose last nodes are looked up
NEW = "new"  # in place of a run's id: of one that nobody has submitted yet


def waiting_runs(cluster: Cluster) -> QuerySet[Run]:
    """The cluster's queue: the highest priority first, and among equals the first that came. See ``arranged``."""
    queued = Run.objects.filter(cluster=cluster, status=Status.QUEUED, wanted=Wanted.RUN)
    return queued.order_by("-priority", "created_at", "pk")


def requests_of(waiting: QuerySet[Run]) -> list[Request]:
    """Return what the runs ask for, in their order, without their specs: a queue may be long."""
    columns = waiting.values_list(
        "pk", "num_nodes", "slots_per_node", "slot_shares", "accelerator", "node_counts", "node_limit", "priority",
        "in_container", "project__name", "created_by",
    )  # fmt: skip
    requests = {}
    unknown = []
    for run_id, num_nodes, per_node, shares, accelerator, counts, limit, priority, boxed, project, person in columns:
        if num_nodes is None:  # submitted before runs had these columns
            unknown.append(run_id)
        requests[run_id] = Request(
            run_id,
            num_nodes or 0,
            per_node or 0,
            accelerator,
            node_counts=counts_up_to(counts, limit),
            priority=priority,
            num_shares=shares,
            in_container=bool(boxed),
            project=project,
            person=person,
        )
    for run_id, spec in Run.objects.filter(pk__in=unknown).values_list("pk", "spec"):
        known = requests[run_id]
        requests[run_id] = replace(request_of(run_id, spec), project=known.project, person=known.person)
    return _with_nodes_before(requests, waiting)


def _with_nodes_before(requests: dict[str, Request], waiting: QuerySet[Run]) -> list[Request]:
    """Add where the runs that were restarted ran last."""
    fences = dict(waiting.filter(fence__gt=0).values_list("pk", "fence")[:MAX_RESTARTED])
    placed = Placement.objects.filter(attempt__run__in=fences).values_list("attempt__run", "attempt__fence", "node")
    nodes: dict[str, set[str]] = defaultdict(set)
    for run_id, fence, node_id in placed:
        if fence == fences[run_id]:
            nodes[run_id].add(node_id)
    return [replace(one, before=frozenset(nodes[one.run])) if nodes[one.run] else one for one in requests.values()]


def request_of(run_id: str, spec: SpecDocument) -> Request:
    size = size_of(spec)
    return Request(
        run_id,
        size["num_nodes"],
        size["slots_per_node"],
        size["accelerator"],
        node_counts=tuple(size["node_counts"] or ()),
        priority=size["priority"],
        num_shares=size["slot_shares"],
        in_container=size["in_container"],
        project=spec.get("project", ""),
    )


def arranged(cluster: Cluster, requests: Sequence[Request], now: datetime) -> list[Request]:
    """Return the requests, which come oldest first, in the order in which the cluster's policy has them placed."""
    policy = policy_of(cluster.scheduling)
    return ordered(policy, requests, standings_of(cluster, now, reads_used=policy.reads_used)) if requests else []


def with_times(
    cluster: Cluster, requests: Sequence[Request], rooms: Sequence[Room], now: datetime
) -> tuple[list[Request], list[Room]]:
    """Return the requests with the time that they last, at most as is expected, and the rooms with the ends of what
    holds their slots: so a run may pass another that waits."""
    history = History(cluster, now)
    lasts = lasts_of(requests[:MAX_TIMED], history)
    timed = [replace(one, lasts_s=lasts[one.run].high) if one.run in lasts else one for one in requests]
    return timed, with_ends(cluster, rooms, ends_of(cluster, now, history))


def outlook(cluster: Cluster, rooms: Sequence[Room], now: datetime) -> tuple[dict[str, Span], dict[str, Span]]:
    """Return in how many seconds each run of the queue is expected to start, and how long it lasts, where somebody can
    say."""
    queue = requests_of(waiting_runs(cluster))
    early = refused(queue, terms_of(cluster, now))
    requests = arranged(cluster, [one for one in queue if one.run not in early], now)[:MAX_TIMED]
    history = History(cluster, now)
    ends = ends_of(cluster, now, history)
    held = HeldSlot.objects.filter(node__cluster=cluster).values_list("node", "placement__attempt__run", "index")
    slots = Counter((node, run) for node, run, _ in set(held))
    holds = [Hold(run, node, number) for (node, run), number in slots.items()]
    lasts = lasts_of(requests, history)
    return starts(requests, rooms, holds, ends | lasts), lasts


class QueuedRun(NamedTuple):
    run: Run
    place: int  # from 1


def queue_of(user: Someone, cluster: Cluster, now: datetime) -> list[QueuedRun]:
    """Return the first runs that wait, of which those that the person sees. The others are counted in the places."""
    order = [one.run for one in arranged(cluster, requests_of(waiting_runs(cluster)), now)][:MAX_LISTED]
    rows = visible_runs(user).filter(pk__in=order).select_related("project", "start_terms")
    seen = rows.defer("spec", "estimate").in_bulk()
    return [QueuedRun(seen[run], place) for place, run in enumerate(order, 1) if run in seen]


def forecast(cluster: Cluster, spec: SpecDocument, capacity: Sequence[Room], now: datetime) -> Placed | Waiting:
    """Return where a run of the resolved spec would start if it were submitted now, else why it would wait.
    ``capacity``: what the cluster's engine has free."""
    if sentence := why_not_yet(spec, now):
        return Waiting(NEW, sentence)
    own = request_of(NEW, spec)
    requests = arranged(cluster, [*requests_of(waiting_runs(cluster)), own], now)
    timed, rooms = with_times(cluster, requests, capacity, now)
    return place(cluster.name, timed, rooms)[requests.index(own)]
