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
from runs.placing.ends import History, ends_of, lasts_of, with_ends
from runs.placing.fitting import Placed, Request, Room, Waiting
from runs.placing.forecasting import Hold, starts
from runs.placing.policies import ordered, policy_of
from runs.placing.scheduling import place
from runs.placing.spans import Outcome, Span, corrected
from runs.placing.usage import standings_of
from runs.rights.access import Someone, visible_runs
from runs.values.columns import StartPrediction
from runs.values.status import Status, Wanted
from trainyard.contract.base import SpecDocument, convert
from trainyard.spec.needs import Needs, needs_of

MAX_LISTED = 1_000  # of a queue, the first, that pages have
MAX_TIMED = 300  # of it, the first: how long they last, and when they start, is worked out
MAX_RESTARTED = 500  # of a queue, whose last nodes are looked up
MAX_OUTCOMES = 200  # newest runs of a cluster whose predicted starts are compared with what came
NEW = "new"  # in place of a run's id: of one that nobody has submitted yet


def waiting_runs(cluster: Cluster) -> QuerySet[Run]:
    """The cluster's queue: the highest priority first, and among equals the first that came. See ``arranged``."""
    queued = Run.objects.filter(cluster=cluster, status=Status.QUEUED, wanted=Wanted.RUN)
    return queued.order_by("-priority", "created_at", "pk")


def requests_of(waiting: QuerySet[Run]) -> list[Request]:
    """Return what the runs ask for, in their order, without their specs: a queue may be long."""
    columns = waiting.values_list(
        "pk", "num_nodes", "slots_per_node", "slot_shares", "accelerator", "node_counts", "node_limit", "priority",
        "in_container", "project__name", "created_by", "needs",
    )  # fmt: skip
    requests = {}
    unknown = []
    for run_id, num_nodes, per_node, shares, kind, counts, limit, priority, boxed, project, person, needs in columns:
        if num_nodes is None:  # submitted before runs had these columns
            unknown.append(run_id)
        requests[run_id] = Request(
            run_id,
            num_nodes or 0,
            per_node or 0,
            kind,
            node_counts=counts_up_to(counts, limit),
            priority=priority,
            num_shares=shares,
            in_container=bool(boxed),
            project=project,
            person=person,
            needs=convert(needs, Needs) if needs else None,
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
        needs=needs_of(spec),
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


def holds_of(cluster: Cluster) -> list[Hold]:
    held = HeldSlot.objects.filter(node__cluster=cluster).values_list("node", "placement__attempt__run", "index")
    slots = Counter((node, run) for node, run, _ in set(held))
    return [Hold(run, node, number) for (node, run), number in slots.items()]


class Ahead:
    """A cluster's queue as it is now, read once. ``rooms``: what the cluster's engine has free."""

    def __init__(self, cluster: Cluster, rooms: Sequence[Room], now: datetime) -> None:
        self._cluster, self.now, self._rooms = cluster, now, rooms
        self._queue, self._terms = requests_of(waiting_runs(cluster)), terms_of(cluster, now)
        self.history = History(cluster, now)
        self._ends = ends_of(cluster, now, self.history)
        self.lasts: dict[str, Span] = {}  # how long those last of which starts were asked

    def starts(self, own: Request | None = None, lasts: Span | None = None) -> dict[str, tuple[Span, float]]:
        """Return in how many seconds each run is expected to start, where known, and what was expected before that was
        corrected by what came of earlier predictions. ``own`` would be submitted now."""
        requests = self._arranged(own)[:MAX_TIMED]
        self.lasts = self._lasts(requests, lasts)
        found = starts(requests, self._rooms, holds_of(self._cluster), self._ends | self.lasts)
        past = outcomes_of(self._cluster) if found else []
        return {run: (corrected(span, past), span.expected) for run, span in found.items()}

    def prospect(self, own: Request, lasts: Span | None = None) -> tuple[Placed | Waiting, Span | None]:
        """Return where a run would start that was submitted now, else why and how long it would wait, if known."""
        if why := refused([*self._queue, own], self._terms).get(own.run):
            return Waiting(own.run, *why), None
        requests = self._arranged(own)
        known = self._lasts(requests[:MAX_TIMED], lasts)
        timed = [replace(one, lasts_s=known[one.run].high) if one.run in known else one for one in requests]
        rooms = with_ends(self._cluster, self._rooms, self._ends)
        answer = place(self._cluster.name, timed, rooms)[requests.index(own)]
        found = None if isinstance(answer, Placed) else self.starts(own, lasts).get(own.run)
        # Where plays start it at once, and placing does not, nothing is said.
        return answer, found[0] if found and found[1] else None

    def _arranged(self, own: Request | None) -> list[Request]:
        requests = [*self._queue, own] if own else self._queue
        early = refused(requests, self._terms)
        return arranged(self._cluster, [one for one in requests if one.run not in early], self.now)

    def _lasts(self, requests: Sequence[Request], own: Span | None) -> dict[str, Span]:
        return lasts_of(requests, self.history) | ({NEW: own} if own else {})


def priority_beside(cluster: Cluster, run: str, other: str, now: datetime) -> int | None:
    """Return the priority nearest to its own with which the run comes before the other, or behind it where it is before
    it now. None where there is none, or one of them does not wait."""
    requests = requests_of(waiting_runs(cluster).order_by("created_at", "pk"))
    known = {one.run: one.priority for one in requests}
    if run not in known or other not in known:
        return None

    def is_before(priority: int) -> bool:
        changed = (replace(one, priority=priority) if one.run == run else one for one in requests)
        order = [one.run for one in arranged(cluster, sorted(changed, key=lambda one: -one.priority), now)]
        return order.index(run) < order.index(other)

    own, was_before = known[run], is_before(known[run])
    near = {one + step for one in known.values() for step in (-1, 0, 1)} & {*range(101)} - {own}
    ways = sorted(near, key=lambda one: abs(one - own))
    return next((one for one in ways if (one < own) == was_before and is_before(one) != was_before), None)


def outcomes_of(cluster: Cluster) -> list[Outcome]:
    """Return what came of predictions of the cluster's newest runs, as they were told first; the oldest first."""
    told = Run.objects.filter(cluster=cluster, predicted_start__isnull=False, attempts__number=1)
    found = []
    rows = told.order_by("-created_at").values_list("predicted_start", "attempts__created_at")[:MAX_OUTCOMES]
    for document, start in reversed(rows):
        first = convert(document, StartPrediction).first
        if (
            first is not None and start.timestamp() >= first.made_at
        ):  # not of one that was paused before, and waits again
            told_s = (one - first.made_at for one in (first.at, first.low, first.high, start.timestamp()))
            found.append(Outcome(first.played_s, *told_s))
    return found


class QueuedRun(NamedTuple):
    run: Run
    place: int  # from 1


def queue_of(user: Someone, cluster: Cluster, now: datetime) -> list[QueuedRun]:
    """Return the first runs that wait, of which those that the person sees. The others are counted in the places."""
    order = [one.run for one in arranged(cluster, requests_of(waiting_runs(cluster)), now)][:MAX_LISTED]
    rows = visible_runs(user).filter(pk__in=order).select_related("project", "start_terms")
    seen = rows.defer("spec", "estimate").in_bulk()
    return [QueuedRun(seen[run], place) for place, run in enumerate(order, 1) if run in seen]
