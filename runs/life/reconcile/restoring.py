"""States from which an attempt may go on, and the words about them in the run's history."""

from collections.abc import Iterable, Sequence

import msgspec
from django.db import transaction
from django.db.models import Q, QuerySet

from runs.models import Attempt, Run
from runs.records.checkpoints import read as checkpoints
from runs.records.checkpoints.read import ANEW, INVALID, OFF, RESTORED
from runs.records.metrics.models import CheckpointUse, Series
from runs.recovery.policy import is_behind
from runs.values.run_config import origin_of
from runs.values.status import Phase
from trainyard.contract.base import to_builtins
from trainyard.contract.limits import MAX_OFFERED
from trainyard.contract.orders import CheckpointReference, MemoryNode, MemoryOrder

ATTEMPTS_PER_QUERY = 100


def offered_to(attempt: Attempt) -> list[CheckpointReference]:
    """Return what go names: the newest checkpoints of the run's earlier attempts and, last, the one that its spec goes
    on from."""
    origin = origin_of(attempt.run.spec)
    own = checkpoints.candidates(attempt.run_id, before=attempt.fence, number=MAX_OFFERED - (origin is not None))
    first = checkpoints.find(origin.run, origin.step) if origin is not None else None
    return [CheckpointReference(one.run_id, one.step, one.fence) for one in (*own, *([first] if first else []))]


def memory_order_of(attempt: Attempt) -> MemoryOrder:
    """Return what go says of states in memory: only a restart by itself, with as many ranks as before, may go on from
    one. Behind a pause, or with another number of ranks, the checkpoints on the disk count."""
    recovery = attempt.run.restarts
    # Attempts before the run was sent back count no more.
    after = max([recovery.after_fence, *(one.fence for one in attempt.run.known_rewinds)])
    before = attempt.run.attempts.filter(fence__lt=attempt.fence, fence__gt=after, go__isnull=False)
    sizes = set(before.values_list("world_size", flat=True))
    may_restore = recovery.number > 0 and sizes == {attempt.world_size}
    return MemoryOrder(
        restore_above=after if may_restore else None,
        restore_until_step=_arrived_step(attempt, before) if may_restore else None,
        nodes=[
            MemoryNode(one.node.name, one.node.address, one.node.machine.memory_port)
            for one in attempt.placements.select_related("node")
        ],
    )


def _arrived_step(attempt: Attempt, before: QuerySet[Attempt]) -> int | None:
    """Return the last step of which every record came that ranks of a lost node wrote; None where no node is lost. What
    they wrote later may never come, and from a state of a later step nobody would write it again."""
    last = before.order_by("-fence").first()
    over = (Phase.ENDED, Phase.REFUSED)
    lost = [] if last is None else [one for one in last.placements.all() if one.phase not in over]
    if not lost:
        return None
    arrived = {str(one.first_rank + index): 0 for one in lost for index in range(one.num_ranks)}
    for labels, step in Series.objects.filter(run_id=attempt.run_id).values_list("labels", "last_step"):
        rank = str(labels.get("rank", 0))
        if rank in arrived and labels.keys() <= {"rank"}:
            arrived[rank] = max(arrived[rank], step or 0)
    return min(arrived.values())


def missing_origin(attempt: Attempt, offered: Sequence[CheckpointReference]) -> str:
    """Return in words the checkpoint that the run was to go on from, if it is gone and none of its own is left: to
    start anew would be another training than the one that was asked for. Empty where nothing is missing."""
    if offered:
        return ""
    if (origin := origin_of(attempt.run.spec)) is not None:
        return str(origin)
    sent_back = [one for one in attempt.run.known_rewinds if one.fence >= attempt.run.restarts.after_fence]
    step = sent_back[-1].to_step if sent_back else 0
    return f"of step {step:,} or before" if step else ""


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
    if use.memory:
        data["memory"] = use.memory
    with transaction.atomic():
        # Only the process that moves the mark records it.
        if Attempt.objects.filter(pk=attempt.pk, told_use__lt=use.pk).update(told_use=use.pk):
            _record_source(attempt, use)
            attempt.run.record(code, sentence, data=data, attempt=attempt)
    attempt.told_use = use.pk


def _record_source(attempt: Attempt, use: CheckpointUse) -> None:
    """Write into the run's recovery what this restart went on from."""
    run = attempt.run
    if use.state not in (RESTORED, ANEW) or not run.restarts.number or use.source_run not in ("", run.pk):
        return
    step = use.step if use.state == RESTORED else None
    source = "" if step is None else f"the memory of {use.memory}" if use.memory else "storage"
    run.refresh_from_db(fields=["recovery"])  # another process may have written when it was back
    before = run.recovery
    run.recovery = to_builtins(msgspec.structs.replace(run.restarts, from_step=step, source=source))
    Run.objects.filter(pk=run.pk, recovery=before).update(recovery=run.recovery)


def _words(attempt: Attempt, use: CheckpointUse) -> tuple[str, str]:
    why = use.why.rstrip(".") or "it does not say why"
    if use.memory and use.state == INVALID:
        return "memory-invalid", f"The state of step {use.step:,} in the memory of {use.memory} is not used: {why}."
    if use.memory and use.state == OFF:
        if use.step is None:
            return "memory-off", f"No states are kept in memory, so a restart reads from storage: {why}."
        return "memory-left-out", f"The state of step {use.step:,} could not be kept in memory: {why}."
    if use.step is None or use.fence is None:
        return "checkpoints-off", f"No checkpoints are kept: {why}."
    if use.state == OFF:
        return "checkpoint-left-out", f"The checkpoint of step {use.step:,} could not be kept: {why}."
    if use.state == ANEW:
        return "started-anew", f"Starts anew at step 0: {why}."
    place = place_of(attempt, use.source_run, use.step, use.fence)
    if use.state == RESTORED:
        source = f"the memory of {use.memory}, " if use.memory else ""
        return "restored", f"Continues from {source}{place}{_lost(attempt, use)}."
    return "checkpoint-invalid", f"The checkpoint of {place} is not used: {why}."


def _lost(attempt: Attempt, use: CheckpointUse) -> str:
    """Say of a restart how many steps are trained again."""
    run, before, step = attempt.run, attempt.run.restarts.step, use.step
    if before is None or step is None or not is_behind(run) or use.source_run not in ("", run.pk):
        return ""
    lost = max(0, before - step)
    return f"; {lost:,} {'step is' if lost == 1 else 'steps are'} trained again" if lost else "; no step is lost"
