"""What ingest tidies up when it has nothing to read."""

from __future__ import annotations

from runs.metrics.erase import delete_run_data
from runs.metrics.models import NodeSample, Telemetry
from runs.models import Run

KEEP_SAMPLES_S = 24 * 3600.0


def prune(now: float) -> None:
    """Delete samples older than a day (``now`` in Unix seconds), and what arrived for runs after they were deleted."""
    NodeSample.objects.filter(at__lt=now - KEEP_SAMPLES_S).delete()
    stored = list(Telemetry.objects.values_list("run_id", flat=True))
    for run_id in set(stored) - set(Run.objects.filter(pk__in=stored).values_list("pk", flat=True)):
        delete_run_data(run_id)
