"""The end of an allocation: its parts of the attempt are over, its slots are free, and its nodes have left."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from runs import broadcast
from runs.causes.allocations import AllocationEnding, code_of_ending
from runs.engines.control_hints import request_reconcile, request_schedule
from runs.engines.offers import leave
from runs.engines.tokens import end_tokens
from runs.models import Allocation, Attempt, HeldSlot
from runs.status import OVER, Phase
from trainyard.contract.base import to_builtins
from trainyard.contract.reports import Reason

log = structlog.get_logger(__name__)

GIVEN_BACK = "The machines were given back."


def close(allocation: Allocation, ending: AllocationEnding | None, now: datetime) -> None:
    """Write that the system has nothing of it any more. ``ending``: of machines that were still needed."""
    attempt = allocation.attempt
    with transaction.atomic():
        allocation.state, allocation.over_at = Allocation.State.OVER, now
        allocation.ending = None if ending is None else to_builtins(ending)
        allocation.reason = allocation.sentence = allocation.problem = ""
        allocation.save(update_fields=["state", "over_at", "ending", "reason", "sentence", "problem"])
        _end_parts(attempt, ending, now)
        end_tokens(attempt)
        leave(allocation)
    log.info("allocation.over", job=allocation.job, attempt=attempt.pk, ending=ending and str(ending.kind))
    broadcast.run_changed(attempt.run_id)
    if attempt.ended_at is None:
        request_reconcile(attempt.run_id)
    elif attempt.run.cluster_id is not None:
        request_schedule(attempt.run.cluster_id)


def _end_parts(attempt: Attempt, ending: AllocationEnding | None, now: datetime) -> None:
    """Nothing runs on machines that are gone: that is a proof, and no silence."""
    code = "machines-given-back" if ending is None else code_of_ending(ending)
    reason = Reason(
        code=code, sentence=GIVEN_BACK if ending is None else ending.sentence, at=now.timestamp(), evidence={}
    )
    for placement in attempt.placements.exclude(phase__in=OVER):
        placement.phase = Phase.ENDED
        placement.report = {**placement.report, "phase": Phase.ENDED, "reason": to_builtins(reason)}
        placement.save(update_fields=["phase", "report"])
    HeldSlot.objects.filter(placement__attempt=attempt).delete()
