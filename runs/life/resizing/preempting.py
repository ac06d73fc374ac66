"""Runs of lower priority make room for one that waits: they save a checkpoint first, and return by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

import structlog
from django.db.models import Max, Min, Q, QuerySet

from runs.engines import engine_of
from runs.life import stopping
from runs.life.resizing.rounds import goes_on, ranks_do_sentence
from runs.models import Attempt, Cluster, Run
from runs.models.runs import StaleStatus
from runs.placing.preempting import Concession, SlotHolder, make_room
from runs.placing.queue import requests_of, waiting_runs
from runs.values.status import Status, TransitionError, Wanted
from trainyard.spec.sections.restarts import RestartRules

log = structlog.get_logger(__name__)


def preemptable_clusters(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Return those of the clusters where a run waits and one of lower priority trains."""
    found = []
    for cluster in clusters:
        first = waiting_runs(cluster).order_by().aggregate(first=Min("priority"))["first"]
        last = _training(cluster).aggregate(last=Max("run__priority"))["last"]
        if first is not None and last is not None and first < last:
            found.append(cluster)
    return found


def preempt(cluster: Cluster, now: datetime, claimant: Callable[[], str | None]) -> list[Attempt]:
    """Have runs make room for ``claimant``, the first that waits. Return their attempts; none while others still do."""
    leaving = Q(status=Status.RESIZING) | Q(status=Status.STOPPING, wanted=Wanted.REQUEUE)
    if Run.objects.filter(leaving, cluster=cluster).exists() or (first := claimant()) is None:
        return []
    name = Run.objects.filter(pk=first).values_list("name", flat=True).first()
    (request,) = requests_of(Run.objects.filter(pk=first))
    attempts = {one.run_id: one for one in _attempts(cluster)}
    holders = _holders(list(attempts.values()))
    concessions = make_room(request, engine_of(cluster).capacity(cluster, now), holders)
    made = []
    for concession in concessions:
        try:
            _begin(attempts[concession.run], concession, str(name), now)
        except (StaleStatus, TransitionError) as error:  # somebody was faster: the next round looks again
            log.info("preempt.overtaken", run=concession.run, error=str(error))
            continue
        made.append(attempts[concession.run])
    return made


def _begin(attempt: Attempt, concession: Concession, name: str, now: datetime) -> None:
    run, num_before = attempt.run, len(attempt.placements.all())
    first = f"Run {name} has a higher priority and needs nodes"
    if concession.num_nodes:
        words = f"{first}: {goes_on(num_before, concession.num_nodes)}. {ranks_do_sentence(run, attempt)}"
        stopping.begin(run, attempt, why=stopping.RESIZE, code="resizing", sentence=words, now=now)
    else:
        words = f"{first}: {stopping.what_ranks_do(run, attempt)}. The run goes on when there is room again."
        stopping.begin(run, attempt, why=stopping.PREEMPTED, code="making-room", sentence=words, now=now)


def _training(cluster: Cluster) -> QuerySet[Attempt]:
    found = Attempt.objects.filter(ended_at=None, settling_at=None, stop__isnull=True, contact_lost_at=None)
    return found.filter(go__isnull=False, run__cluster=cluster, run__status=Status.RUNNING, run__wanted=Wanted.RUN)


def _attempts(cluster: Cluster) -> list[Attempt]:
    """Return the attempts that may be asked: what they have done so far is not lost by it. One with a share of a slot
    is not: the others of that slot would still hold it."""
    found = (
        _training(cluster)
        .filter(run__slot_shares=1)
        .select_related("run__cluster")
        .prefetch_related("placements__held_slots")
    )
    return [one for one in found.order_by("run__created_at", "run") if _keeps_its_state(one.run)]


def _keeps_its_state(run: Run) -> bool:
    """A recipe saves a checkpoint; a script is one that may be started again."""
    return run.saves_at_stop or ("script" in run.spec.get("task", {}) and RestartRules.of(run.spec).max > 0)


def _holders(attempts: list[Attempt]) -> list[SlotHolder]:
    requests = {one.run: one for one in requests_of(Run.objects.filter(pk__in=[one.run_id for one in attempts]))}
    return [
        SlotHolder(
            requests[attempt.run_id],
            tuple(
                (one.node_id, tuple(slot.index for slot in one.held_slots.all())) for one in attempt.placements.all()
            ),
        )
        for attempt in attempts
    ]
