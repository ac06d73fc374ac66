"""What is known of an answer before its points are read: of which moment it will be, and how large."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Sum
from django.db.models.functions import Least

from runs.metrics.models import Series, Telemetry


def cursors_of(run_ids: Sequence[str]) -> dict[str, int]:
    """Return how many batches of each run were committed; 0 for one that never reported."""
    known = dict(Telemetry.objects.filter(run_id__in=run_ids).values_list("run_id", "cursor"))
    return {run_id: known.get(run_id, 0) for run_id in run_ids}


def num_points(run_ids: Sequence[str], names: Sequence[str], labels: dict[str, str], points: int) -> int:
    """Return how many points an answer has at most, with ``points`` of each series (every one without ``names``)."""
    series = Series.objects.filter(run_id__in=run_ids)
    if names:
        series = series.filter(name__in=names)
    if not labels:
        return series.aggregate(total=Sum(Least("count", points)))["total"] or 0
    rows = series.values_list("labels", "count").iterator()
    return sum(min(count, points) for known, count in rows if labels.items() <= known.items())
