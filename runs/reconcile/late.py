"""Runs that succeeded before all of their records had arrived: what arrives later corrects their remarks."""

from __future__ import annotations

from datetime import datetime, timedelta

from runs.models import Run
from runs.reconcile.acting import is_complete
from runs.reconcile.judge import INCOMPLETE
from runs.status import Status

FOR = timedelta(days=30)  # for so long nodes keep what they have not sent
AT_A_TIME = 100
EVERY_S = 5.0

_looked_at: datetime | None = None


def correct_late(now: datetime) -> None:
    """Say of each such run that everything has arrived, once it has. Looks every EVERY_S at most."""
    global _looked_at
    if _looked_at is not None and abs((now - _looked_at).total_seconds()) < EVERY_S:
        return
    _looked_at = now
    runs = Run.objects.filter(status=Status.SUCCEEDED, ended_at__gte=now - FOR, reason_code=INCOMPLETE)
    for run in runs.defer("spec", "estimate").order_by("-ended_at")[:AT_A_TIME]:
        attempt = run.attempts.prefetch_related("placements").latest("number")
        if is_complete(attempt, list(attempt.placements.all())):
            sentence = "Every rank finished, and the last of what they wrote has arrived since."
            run.correct_reason(code="finished", sentence=sentence, instead_of=INCOMPLETE, attempt=attempt)
