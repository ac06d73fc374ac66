"""Deleting what came back from a run, with the run."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from runs.metrics.models import DeadLetter, LogChunk, Producer, Segment, Series, Telemetry


def forget(run_id: str) -> None:
    """Delete every point, log line and watermark of the run. Records that still come are refused: it has no row."""
    with transaction.atomic(using=settings.METRICS_DATABASE):
        Segment.objects.filter(series__run_id=run_id).delete()
        for model in (Series, LogChunk, Producer, Telemetry, DeadLetter):
            model.objects.filter(run_id=run_id).delete()  # type: ignore[attr-defined]
