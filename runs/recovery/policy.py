"""Decision after a failed attempt: a pure function of the failures so far."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from django.db import transaction

from runs.models import Attempt, Run
from runs.records.metrics.models import Telemetry
from runs.values.columns import AttemptFailure, LeftOutNode, Recovery
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import CauseClass
from trainyard.spec.sections.restarts import RESTARTED_ONCE, RestartRules
from trainyard.spec.values.durations import LONGEST_PAUSE_S, words_of

LEFT_OUT_S = 900.0  # a node may have been repaired by then, and is tried again
FAULTS_TO_AVOID = 2  # failures on one node after which others come first
# Failures that may have to do with the machine on which they happened.
OF_NODES = frozenset(
    {CauseClass.KILLED, CauseClass.PROCESS_LOST, CauseClass.NODE_LOST, CauseClass.NETWORK, CauseClass.HANG,
     CauseClass.GPU_FAULT, CauseClass.DISK_FULL, CauseClass.STORAGE, CauseClass.NODE_UNFIT, CauseClass.OUT_OF_MEMORY,
     CauseClass.GPU_OUT_OF_MEMORY}
)  # fmt: skip
# Machines that were only lent were taken back: that is no fault of the run, however often it happens.
NOT_COUNTED = frozenset({CauseClass.PREEMPTED})


@dataclass(frozen=True)
class Restart:
    """Start again after ``pause_s``. ``number`` counts the restarts in a row, this one included."""

    number: int
    pause_s: float
    left_out: tuple[LeftOutNode, ...] = ()


@dataclass(frozen=True)
class Stop:
    """Stay ended. ``sentence`` says why where a restart was possible; else the failure itself says enough."""

    sentence: str = ""


def decide(rules: RestartRules, failures: Sequence[AttemptFailure], now: float) -> Restart | Stop:
    """Return what follows from the last of the run's ``failures``, which come oldest first and are those since a person
    started it. ``now``: Unix seconds."""
    last, before = failures[-1], failures[:-1]
    action = rules.action_on(last.cause)
    if rules.max == 0 or action == "stop":
        return Stop()
    if last.signature and any((one.signature, one.step) == (last.signature, last.step) for one in before):
        where = "before its first step" if last.step is None else f"in step {last.step:,}"
        return Stop(f"It failed in the same way {where} before, so it is not restarted.")
    counted = [one for one in before if _counts(one, last, rules, now)]
    is_once = last.cause in RESTARTED_ONCE and last.cause not in rules.on
    if is_once and any(one.cause == last.cause for one in counted):
        return Stop(f"It was restarted after {last.cause} once before, so it is not restarted again.")
    if len(counted) >= rules.max and last.cause not in NOT_COUNTED:
        times = "once" if rules.max == 1 else f"{rules.max} times"
        return Stop(f"It was restarted {times} within {words_of(rules.window_s)} and kept no newer checkpoint.")
    return Restart(
        number=len(counted) + 1,
        pause_s=0.0 if last.cause in NOT_COUNTED else _pause_s(len(counted), rules.backoff_s),
        left_out=tuple(_left_out(rules, failures, now)),
    )


def _counts(one: AttemptFailure, last: AttemptFailure, rules: RestartRules, now: float) -> bool:
    """Return whether the restart after this failure still counts: it is recent, and no newer state was kept."""
    newest, former = last.newest_step, one.newest_step
    has_got_on = newest is not None and (former is None or newest > former)
    return now - one.at <= rules.window_s and not has_got_on and one.cause not in NOT_COUNTED


def _pause_s(num_before: int, backoff_s: float) -> float:
    """The first restart follows at once; then the pause doubles."""
    return min(LONGEST_PAUSE_S, backoff_s * 2.0 ** min(num_before - 1, 30)) if num_before else 0.0


def _left_out(rules: RestartRules, failures: Sequence[AttemptFailure], now: float) -> list[LeftOutNode]:
    recent = [one for one in failures if one.node and now - one.at < LEFT_OUT_S]
    faults = Counter(one.node for one in recent if one.cause in OF_NODES)
    found: dict[str, LeftOutNode] = {}
    for one in recent:
        node, name, until = one.node, one.node_name, one.at + LEFT_OUT_S
        if rules.action_on(one.cause) == "exclude-node":
            why = f"{one.cause} there"
            found[node] = LeftOutNode(node=node, name=name, why=why, until=until, cause=str(one.cause))
        elif faults[node] >= FAULTS_TO_AVOID and not (node in found and found[node].is_excluded):
            why = f"{faults[node]} failures there"
            found[node] = LeftOutNode(node=node, name=name, why=why, until=until, is_excluded=False)
    by_rules = [one for failure in failures if now - failure.at < LEFT_OUT_S for one in failure.left_out]
    found |= {one.node: one for one in by_rules if one.node not in found or not found[one.node].is_excluded}
    return list(found.values())


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
    return not any(one.fence > last.failed_fence for one in run.known_rewinds)


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
    return " ".join([f"{_which(recovery)} {when}{_from_where(recovery)}.", *left_out_sentences(recovery.left_out)])


def _which(recovery: Recovery) -> str:
    is_free = recovery.cause in NOT_COUNTED
    return "A restart that does not count" if is_free else f"Restart {recovery.number} of {recovery.max}"


def _from_where(recovery: Recovery) -> str:
    if (lost := num_lost(recovery)) is None:
        return ""
    words = f": {lost:,} {'step is' if lost == 1 else 'steps are'} trained again" if lost else ""
    if recovery.from_step is None:
        return f", from the start{words}"
    where = " in memory" if recovery.source == "memory" else ""
    return f", from step {recovery.from_step:,}{where}{words}"


def num_lost(recovery: Recovery) -> int | None:
    """Return how many steps were done after the checkpoint; None where a script has not reported any."""
    if recovery.is_script and recovery.from_step is None and not recovery.source:
        return None
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
    came = f"The first new step came {words_of(took_s)} after the failure"
    if (lost := num_lost(recovery)) is None:
        return f"{came}."
    again = f"{lost:,} {'step was' if lost == 1 else 'steps were'} trained again" if lost else "no step was lost"
    return f"{came}; {again}."
