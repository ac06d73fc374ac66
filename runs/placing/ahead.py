"""Trials of sweeps that were queued before there is a place for them: they wait until another one of their sweep has
left its slots. So the next trial is proposed and queued by the time that a slot is free."""

from __future__ import annotations

from collections import defaultdict

from django.db.models import Q

from runs.models import Cluster, HeldSlot, Run, Sweep, Trial
from runs.placing.scheduling import Waiting
from runs.values.status import Status
from trainyard.contract.statuses import SweepStatus


def held_back(cluster: Cluster) -> list[Waiting]:
    """Return the queued runs that are not to be placed now, with the reason. A run that was placed before goes on."""
    queued = Trial.objects.filter(run__cluster=cluster, run__status=Status.QUEUED, run__fence=0)
    waiting: dict[str, list[str]] = defaultdict(list)
    for sweep_id, run_id in queued.order_by("number").values_list("sweep_id", "run_id"):
        waiting[sweep_id].append(str(run_id))
    found: list[Waiting] = []
    for sweep in Sweep.objects.filter(pk__in=waiting):
        if sweep.parsed.ahead:
            found += _of_sweep(sweep, waiting[sweep.pk])
    return found


def _of_sweep(sweep: Sweep, run_ids: list[str]) -> list[Waiting]:
    if sweep.status == SweepStatus.PAUSED:
        return [Waiting(run_id, f"Sweep {sweep.name} is paused.") for run_id in run_ids]
    parallel = sweep.parsed.budget.parallel
    # Not by their status: a run whose last records are on their way has left its slots.
    holders = HeldSlot.objects.filter(placement__attempt__run__trial__sweep=sweep).values("placement__attempt__run")
    again = Q(trial__sweep=sweep, status__in=(Status.RECOVERING, Status.RESIZING))
    room = max(0, parallel - Run.objects.filter(Q(pk__in=holders) | again).count())
    sentence = f"Waiting for another trial of sweep {sweep.name} to end: {parallel} run at a time."
    return [Waiting(run_id, sentence) for run_id in run_ids[room:]]
