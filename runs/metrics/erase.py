"""Forgetting a run."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from runs.metrics.models import Axis, Block, DeadLetter, Level, LogChunk, Producer, Segment, Series, Telemetry


def delete_run_data(run_id: str) -> None:
    """Delete everything that the metric store knows of the run."""
    with transaction.atomic(using=settings.METRICS_DATABASE):
        for rows in (Segment, Level):
            rows._default_manager.filter(series__run_id=run_id).delete()
        for model in (Block, Axis, Series, LogChunk, Producer, DeadLetter, Telemetry):
            model._default_manager.filter(run_id=run_id).delete()
