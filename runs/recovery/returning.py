"""When a run that was started again is where it was before: the history says how long that took."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from django.db import transaction

from runs.models import Attempt, Run
from runs.records.metrics.models import Telemetry
from runs.recovery.words import back_sentence, num_lost
from trainyard.contract.base import to_builtins

BACK = "recovered"


def record_returns(attempts: Iterable[Attempt]) -> None:
    """Write an event for each of these attempts that has taken a step which none before it had taken."""
    open_ones = {one.run_id: one for one in attempts if one.go is not None and is_behind(one.run)}
    if not open_ones:
        return
    for telemetry in Telemetry.objects.filter(pk__in=open_ones):
        attempt = open_ones[telemetry.run_id]
        if telemetry.attempt == attempt.fence and telemetry.step is not None:
            _record(attempt, telemetry)


def is_behind(run: Run) -> bool:
    """Whether the run is not yet where it was before its last failure. One that was sent back since is not to be."""
    last = run.restarts
    if run.recovery is None or last.number == 0 or last.back_after_s is not None:
        return False
    return not any(one.fence > last.failed_fence for one in run.known_rewinds.entries)


def _record(attempt: Attempt, telemetry: Telemetry) -> None:
    recovery = attempt.run.restarts
    first = max(recovery.step or 0, recovery.from_step or 0) + 1
    assert telemetry.step is not None, "whoever calls this has looked"
    if telemetry.step < first or telemetry.step_at is None:
        return
    # The steps behind the first new one took the usual time each.
    behind_s = (telemetry.step - first) * (telemetry.median_step_s or 0.0)
    took_s = max(0.0, telemetry.step_at - behind_s - (recovery.broke_at or recovery.failed_at))
    new = to_builtins(msgspec.structs.replace(recovery, back_after_s=round(took_s, 3)))
    with transaction.atomic():
        if not Run.objects.filter(pk=attempt.run_id, recovery=attempt.run.recovery).update(recovery=new):
            return  # another process was faster
        data = {"seconds": round(took_s, 3), "steps_again": num_lost(recovery), "step": first}
        attempt.run.record(BACK, back_sentence(recovery, took_s), data=data, attempt=attempt)
    attempt.run.recovery = new
