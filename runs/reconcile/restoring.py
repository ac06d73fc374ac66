"""What an attempt may go on from, and the words about it in the run's history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import Q

from runs.checkpoint_reference import Origin, origin_of
from runs.checkpoints import read as checkpoints
from runs.checkpoints.reports import ANEW, OFF, RESTORED
from runs.metrics.models import CheckpointUse
from runs.models import Attempt, Run
from trainyard.contract.limits import MAX_OFFERED
from trainyard.contract.orders import CheckpointReference

ATTEMPTS_PER_QUERY = 100


def offered_to(attempt: Attempt) -> list[CheckpointReference]:
    """Return what go names: the newest checkpoints of the run's earlier attempts and, last, the one that its spec goes
    on from."""
    origin = origin_of(attempt.run.spec)
    own = checkpoints.candidates(attempt.run_id, before=attempt.fence, number=MAX_OFFERED - (origin is not None))
    first = checkpoints.find(origin.run, origin.step) if origin is not None else None
    return [CheckpointReference(one.run_id, one.step, one.fence) for one in (*own, *([first] if first else []))]


def missing_origin(attempt: Attempt, offered: Sequence[CheckpointReference]) -> Origin | None:
    """Return the checkpoint that the spec goes on from where that is gone, and nothing of the run's own is left either:
    to start anew would be another training than the one that was asked for."""
    return None if offered else origin_of(attempt.run.spec)


def place_of(attempt: Attempt, run_id: str, step: int, fence: int) -> str:
    """Return in words which checkpoint that is."""
    if run_id != attempt.run_id:
        name = Run.objects.filter(pk=run_id).values_list("name", flat=True).first()
        return f"step {step:,} of run {name} ({run_id})" if name else f"step {step:,} of run {run_id}"
    number = attempt.run.attempts.filter(fence=fence).values_list("number", flat=True).first()
    return f"step {step:,} of attempt {number}" if number else f"step {step:,}"


def record_checkpoint_uses(attempts: Iterable[Attempt]) -> None:
    """Write into the history what ranks of these attempts reported of checkpoints since then."""
    attempts = list(attempts)
    for start in range(0, len(attempts), ATTEMPTS_PER_QUERY):
        some = {(one.run_id, one.fence): one for one in attempts[start : start + ATTEMPTS_PER_QUERY]}
        news = Q(pk__in=())
        for attempt in some.values():
            news |= Q(run_id=attempt.run_id, attempt=attempt.fence, pk__gt=attempt.told_use)
        for use in CheckpointUse.objects.filter(news).order_by("pk"):
            _record(some[use.run_id, use.attempt], use)


def _record(attempt: Attempt, use: CheckpointUse) -> None:
    code, sentence = _words(attempt, use)
    data = {"run": use.source_run, "step": use.step, "fence": use.fence, "why": use.why}
    with transaction.atomic():
        # Only the process that moves the mark records it.
        if Attempt.objects.filter(pk=attempt.pk, told_use__lt=use.pk).update(told_use=use.pk):
            attempt.run.record(code, sentence, data=data, attempt=attempt)
    attempt.told_use = use.pk


def _words(attempt: Attempt, use: CheckpointUse) -> tuple[str, str]:
    why = use.why.rstrip(".") or "it does not say why"
    if use.step is None or use.fence is None:
        return "checkpoints-off", f"No checkpoints are kept: {why}."
    if use.state == OFF:
        return "checkpoint-left-out", f"The checkpoint of step {use.step:,} could not be kept: {why}."
    if use.state == ANEW:
        return "started-anew", f"Starts anew at step 0: {why}."
    place = place_of(attempt, use.source_run, use.step, use.fence)
    if use.state == RESTORED:
        return "restored", f"Continues from {place}."
    return "checkpoint-invalid", f"The checkpoint of {place} is not used: {why}."
