"""A run that was started again: the sentences about it, and when it is where it was before."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from django.db import transaction

from runs.models import Attempt, Run
from runs.records.metrics.models import Telemetry
from runs.recovery.policy import NOT_COUNTED
from runs.values.columns import LeftOutNode, Recovery
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import CauseClass
from trainyard.spec.values.durations import words_of

BACK = "recovered"


def record_returns(attempts: Iterable[Attempt]) -> None:
    """Write an event for each of these attempts that has taken a step which none before it had taken."""
    open_ones = {one.run_id: one for one in attempts if one.go is not None and is_behind(one.run)}
    for telemetry in Telemetry.objects.filter(pk__in=open_ones):  # asks nothing of the database where there is none
        attempt = open_ones[telemetry.run_id]
        if telemetry.attempt == attempt.fence and telemetry.step is not None:
            _record(attempt, telemetry)


def is_behind(run: Run) -> bool:
    """Return whether the run has not got back to where its last failure was; no for one that was sent back since."""
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


# Sentences of restarts for a run's history and page. Pure.


def restart_sentence(recovery: Recovery, *, has_room: bool = True) -> str:
    """Say which restart follows, when, from where, and without which nodes. ``has_room``: the others can take it."""
    pause_s = recovery.due_at - recovery.failed_at
    when = "follows at once" if pause_s <= 0 else f"follows after a pause of {words_of(pause_s)}"
    when = when if has_room else "follows as soon as it gets other nodes, or this one again"
    return " ".join([f"{_which(recovery)} {when}, {_from_where(recovery)}.", *left_out_sentences(recovery.left_out)])


def _which(recovery: Recovery) -> str:
    is_free = recovery.cause in NOT_COUNTED
    return "A restart that does not count" if is_free else f"Restart {recovery.number} of {recovery.max}"


def _from_where(recovery: Recovery) -> str:
    lost = num_lost(recovery)
    words = f": {lost:,} {'step is' if lost == 1 else 'steps are'} trained again" if lost else ""
    if recovery.from_step is None:
        return f"from the start{words}"
    where = " in memory" if recovery.source == "memory" else ""
    return f"from step {recovery.from_step:,}{where}{words}"


def num_lost(recovery: Recovery) -> int:
    """Return how many steps were done after the checkpoint."""
    return max(0, (recovery.step or 0) - (recovery.from_step or 0))


def left_out_sentences(left_out: Sequence[LeftOutNode]) -> list[str]:
    return [
        f"{one.name} is {'left out' if one.is_excluded else 'taken only where there is no other'} until "
        f"{'its disk has room, at the latest until ' if one.cause == CauseClass.DISK_FULL else ''}"
        f"{datetime.fromtimestamp(one.until, UTC):%H:%M} UTC ({one.why})."
        for one in left_out
    ]


def waiting_sentence(recovery: Recovery, why: str) -> str:
    if recovery.number == 0:  # it did not fail: it is placed anew
        return why
    return f"{_which(recovery)}: {why[:1].lower()}{why[1:]}"


def back_sentence(recovery: Recovery, took_s: float) -> str:
    """Say that the run is where it was before the failure."""
    lost = num_lost(recovery)
    again = f"{lost:,} {'step was' if lost == 1 else 'steps were'} trained again" if lost else "no step was lost"
    return f"The first new step came {words_of(took_s)} after the failure; {again}."
