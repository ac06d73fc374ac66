"""Predicted starts of waiting runs, kept in their rows: what a run was told first is compared with what came of it."""

from collections.abc import Mapping
from datetime import datetime

from django.core.cache import cache
from django.db.models import Q

from runs.engines import engine_of
from runs.models import Cluster, Run
from runs.placing.queue import outlook, waiting_runs
from runs.placing.spans import Span
from runs.serving import broadcast
from runs.values.columns import StartPrediction
from trainyard.contract.base import to_builtins

EVERY_S = 5
SHIFT_S, SHIFT = 20.0, 0.05  # of the wait: a prediction that moves by less than the larger of both is left


def predict_starts(cluster_id: str, now: datetime) -> None:
    """Predict anew when the runs of the cluster's queue start, at most every few seconds."""
    if not cache.add(f"predicted-starts:{cluster_id}", True, EVERY_S):
        return
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None:
        _write(cluster, outlook(cluster, engine_of(cluster).capacity(cluster, now), now), now.timestamp())


def _write(cluster: Cluster, found: Mapping[str, Span], now: float) -> None:
    changed = []
    told = waiting_runs(cluster).filter(Q(pk__in=found) | Q(predicted_start__isnull=False))
    for run in told.only("pk", "predicted_start", "first_prediction"):
        before, span = run.start_prediction, found.get(run.pk)
        if (span is None and before is None) or (span and before and _is_alike(before, span, now)):
            continue
        made = None
        if span is not None:
            made = to_builtins(StartPrediction(now, now + span.expected, now + span.low, now + span.high))
        run.predicted_start, run.first_prediction = made, run.first_prediction or made
        changed.append(run)
    Run.objects.bulk_update(changed, ["predicted_start", "first_prediction"], batch_size=200)
    if changed:
        broadcast.runs_changed([run.pk for run in changed])


def _is_alike(before: StartPrediction, span: Span, now: float) -> bool:
    most = max(SHIFT_S, SHIFT * span.expected)
    moved = (before.at - now - span.expected, before.low - now - span.low, before.high - now - span.high)
    return all(abs(one) <= most for one in moved)
