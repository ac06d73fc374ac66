"""Puts long series into the store by its own doors, as ingest would have, in seconds instead of hours."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.load.compaction import compact_run
from benchmarks.load.generate import SEED, Points, noisy, series_names
from runs.models import Run
from runs.records.metrics.codec import Columns
from runs.records.metrics.models import Telemetry
from runs.records.points import store
from tests.series import write_points

ROWS_PER_BATCH = 1 << 20
PRODUCER = f"{1:032x}"


def fill(run: Run, num_rows: int, num_series: int = 1) -> None:
    """Write ``num_rows`` noisy rows of ``num_series`` series in batches, and compact them."""
    from django.conf import settings
    from django.db import transaction

    known, _ = Telemetry.objects.get_or_create(run_id=run.pk)
    for cursor, points in enumerate(chunks(num_rows, num_series), 1):
        known.cursor, known.num_points = cursor, known.num_points + points.values.size
        with transaction.atomic(using=settings.METRICS_DATABASE):
            write_points(run.pk, attempt=1, cursor=cursor, pieces=pieces(points))
            known.save()
    compact_run(run.pk, known.cursor, is_quiet=True)


def chunks(num_rows: int, num_series: int) -> Iterator[Points]:
    for number, start in enumerate(range(0, num_rows, ROWS_PER_BATCH)):
        count = min(ROWS_PER_BATCH, num_rows - start)
        yield noisy(count, num_series, first_step=start + 1, seed=SEED + number)


def pieces(points: Points) -> list[store.SeriesPiece]:
    """Return the points as pieces that share their steps and times."""
    return [
        store.SeriesPiece(PRODUCER, 1, name, {}, Columns(points.steps, points.times, points.values[:, place].copy()))
        for place, name in enumerate(series_names(points.values.shape[1]))
    ]
