"""Deleting runs: on request, or some time after they were archived."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import transaction

from runs.models import GoneRun, HeldSlot, Run
from runs.records.files import paths as places
from runs.records.metrics.erase import delete_run_data
from runs.values.status import FINAL

log = structlog.get_logger(__name__)


def forget(run: Run) -> None:
    """Delete the run with its history, points, logs and files. What is large goes from the disk a slice at a time, and
    checkpoints when their nodes ask next."""
    run_id = run.pk
    with transaction.atomic():
        if not run.is_local:
            GoneRun.objects.get_or_create(pk=run_id)
        run.delete()
    delete_run_data(run_id)
    shutil.rmtree(places.run_folder(run_id), ignore_errors=True)


def forget_old(now: datetime, shard: int) -> int:
    """Forget the shard's runs that were archived KEEP_ARCHIVED_DAYS ago, and return how many they were. 0 days: none.

    A run that still holds a slot waits until its node confirms that nothing of it is left there.
    """
    if not settings.KEEP_ARCHIVED_DAYS:
        return 0
    before = now - timedelta(days=settings.KEEP_ARCHIVED_DAYS)
    runs = Run.objects.filter(shard=shard, archived_at__lt=before, status__in=list(FINAL))
    old = list(runs.exclude(pk__in=HeldSlot.objects.values("placement__attempt__run")))
    for run in old:
        log.info("retention.forgets", run=run.pk, name=run.name, archived_at=str(run.archived_at))
        forget(run)
    return len(old)
