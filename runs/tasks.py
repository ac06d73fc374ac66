"""What control does when it is told to. Each task loads nothing itself: one call, and its outcome in the rows."""

from __future__ import annotations

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from runs import engine, reconcile
from trainyard.contract import keys

SCHEDULE = "runs.tasks.schedule"
TASKS = frozenset((keys.RECONCILE_RUN, SCHEDULE))


@shared_task(name=keys.RECONCILE_RUN, ignore_result=True)
def reconcile_run(*, sealed: str) -> None:
    if (about := engine.opened(keys.RECONCILE_RUN, sealed)) is not None:
        reconcile.reconcile_run(str(about["run_id"]), timezone.now())


@shared_task(name=SCHEDULE, ignore_result=True)
def schedule(*, sealed: str) -> None:
    if (about := engine.opened(SCHEDULE, sealed)) is not None:
        reconcile.schedule(str(about["cluster_id"]), timezone.now())


def schedule_soon(cluster_id: str | None) -> None:
    """Place the cluster's queue as soon as this transaction is committed, without waiting for the tick."""
    if cluster_id is None:  # of a run that no cluster has
        return
    transaction.on_commit(lambda: engine.send(SCHEDULE, keys.CONTROL_QUEUE, cluster_id=cluster_id))


def reconcile_soon(run_id: str) -> None:
    """Look at the run as soon as this transaction is committed, without waiting for the tick."""
    transaction.on_commit(lambda: engine.send(keys.RECONCILE_RUN, keys.CONTROL_QUEUE, run_id=run_id))
