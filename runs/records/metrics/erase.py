"""Forgetting a run: at once for who reads, and a slice at a time on the disk.

A run of 100 million points is half a gigabyte. To delete it in one transaction would keep ingest out of the database
for seconds; so its series are put out of everybody's sight in one short transaction, and their rows go in many.
"""

import time
from collections.abc import Iterator

from django.conf import settings
from django.db import connections, models, transaction
from django.db.models.functions import Cast

from runs.records.metrics import models as metrics
from runs.records.metrics.bulk import IDS_PER_QUERY, delete_rows

AT_ONCE_S = 0.1  # a small run is gone when delete_run_data() returns
ROWS = 100  # of up to 60 KB each in one transaction
LOG_ROWS = 50  # of up to 200 KB
MEDIA_ROWS = 5  # of up to 1 MiB
HIDDEN = "~"  # before the id of a run in the rows of its series: no run has such an id
FREE_PAGES = 2000  # of 4 KB, which are kept for what comes next
PAGES_AT_ONCE = 128  # to give back one costs up to 0.3 ms, since another page moves into its place


def delete_run_data(run_id: str) -> None:
    """Hide everything that the metric store has of the run: after this returned its series cannot be read. sweep()
    deletes the large rows."""
    with transaction.atomic(using=settings.METRICS_DATABASE):
        metrics.Erasure.objects.get_or_create(pk=run_id)
        # The labels make way, too: what comes late may have brought the same series again.
        labels_key = Cast("pk", models.TextField())
        metrics.Series.objects.filter(run_id=run_id).update(run_id=HIDDEN + run_id, labels_key=labels_key)
        for model in (metrics.Telemetry, metrics.Producer, metrics.Checkpoint, metrics.CheckpointUse, metrics.Fact):
            model._default_manager.filter(run_id=run_id).delete()
    _erase(run_id, time.monotonic() + AT_ONCE_S)


def sweep(budget_s: float) -> bool:
    """Delete rows of runs that were given up, for about so long. Returns whether there was anything to do."""
    end = time.monotonic() + budget_s
    did_something = False
    for run_id in metrics.Erasure.objects.order_by("at").values_list("pk", flat=True):
        did_something = True
        if not _erase(run_id, end):
            return True
    return give_back(end) or did_something


def give_back(end: float) -> bool:
    """Return free pages of SQLite's file to the disk until ``end`` (monotonic). Returns whether there are more.
    PostgreSQL does that by itself."""
    connection = connections[settings.METRICS_DATABASE]
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return False
    with connection.cursor() as cursor:
        while True:
            free = cursor.execute("PRAGMA freelist_count").fetchone()[0]
            if free <= FREE_PAGES:  # what ingest fills again in a moment
                return False
            # execute() takes the first step of a statement only, which frees one page.
            connection.connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")
            if time.monotonic() >= end:
                return True


def _erase(run_id: str, end: float) -> bool:
    """Delete the run's rows until ``end``; returns whether all are gone. Each batch is a transaction of its own."""
    return all(time.monotonic() < end for _ in _batches(run_id))


def _batches(run_id: str) -> Iterator[None]:
    """Delete some rows at each turn: what points to others before what it points to."""
    yield from _point_batches(run_id)
    yield from _delete(metrics.LogChunk.objects.filter(run_id=run_id), LOG_ROWS)
    yield from _delete(metrics.LogStream.objects.filter(run_id=run_id, chunks=None), IDS_PER_QUERY)
    yield from _delete(metrics.Media.objects.filter(run_id=run_id), MEDIA_ROWS)
    yield from _delete(metrics.DeadLetter.objects.filter(run_id=run_id))
    metrics.Erasure.objects.filter(pk=run_id).delete()


def _point_batches(run_id: str) -> Iterator[None]:
    hidden = metrics.Series.objects.filter(run_id=HIDDEN + run_id)
    yield from _delete(metrics.Block.objects.filter(run_id=run_id))
    while some := list(hidden.values_list("pk", flat=True)[:IDS_PER_QUERY]):
        yield from _delete(metrics.Segment.objects.filter(series__in=some))
        yield from _delete(metrics.Level.objects.filter(series__in=some))
        yield from _delete(metrics.Series.objects.filter(pk__in=some), IDS_PER_QUERY)
    yield from _delete(metrics.Axis.objects.filter(run_id=run_id, segments=None))


def _delete(rows: models.QuerySet[models.Model], number: int = 0) -> Iterator[None]:
    while ids := list(rows.values_list("pk", flat=True)[: number or ROWS]):
        with transaction.atomic(using=settings.METRICS_DATABASE):
            delete_rows(rows.model, ids)
        yield


def remove_points(run_id: str) -> None:
    """Delete the curves of a run that has ended; its logs, media and the record of its progress stay. Whoever is
    interrupted begins again: rows that were hidden once are found."""
    with transaction.atomic(using=settings.METRICS_DATABASE):
        labels_key = Cast("pk", models.TextField())
        metrics.Series.objects.filter(run_id=run_id).update(run_id=HIDDEN + run_id, labels_key=labels_key)
    for _ in _point_batches(run_id):
        pass


def remove_logs(run_id: str) -> None:
    for _ in _delete(metrics.LogChunk.objects.filter(run_id=run_id), LOG_ROWS):
        pass
    for _ in _delete(metrics.LogStream.objects.filter(run_id=run_id, chunks=None), IDS_PER_QUERY):
        pass


def remove_media(run_id: str) -> None:
    for _ in _delete(metrics.Media.objects.filter(run_id=run_id), MEDIA_ROWS):
        pass


def remove_checkpoint_rows(run_id: str) -> None:
    """Record that nothing of the run can be gone on from. The files lie on nodes, which ask whether they may go."""
    metrics.Checkpoint.objects.filter(run_id=run_id, deleted_at=None).update(deleted_at=time.time())
