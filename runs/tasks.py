"""Control's tasks. Each makes one call, whose outcome stands in the rows."""

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from runs.engines import control_hints
from runs.engines.control_hints import SCHEDULE, ReconcileHint, ScheduleHint
from runs.life import reconcile
from trainyard.contract.seals import RECONCILE_RUN

TASKS = frozenset((RECONCILE_RUN, SCHEDULE))


@shared_task(name=RECONCILE_RUN, ignore_result=True)
def reconcile_run(*, sealed: str) -> None:
    if (hint := control_hints.opened(RECONCILE_RUN, sealed, ReconcileHint)) is not None:
        reconcile.reconcile_run(hint.run_id, timezone.now())


@shared_task(name=SCHEDULE, ignore_result=True)
def schedule(*, sealed: str) -> None:
    if (hint := control_hints.opened(SCHEDULE, sealed, ScheduleHint)) is not None:
        reconcile.schedule(hint.cluster_id, timezone.now())


def schedule_soon(cluster_id: str | None) -> None:
    """Place the cluster's queue as soon as this transaction is committed, without waiting for the tick."""
    if cluster_id is None:  # of a run that no cluster has
        return
    transaction.on_commit(lambda: control_hints.request_schedule(cluster_id))


def reconcile_soon(run_id: str) -> None:
    """Look at the run as soon as this transaction is committed, without waiting for the tick."""
    transaction.on_commit(lambda: control_hints.request_reconcile(run_id))
