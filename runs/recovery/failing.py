"""Outcome of a run whose attempt failed: it ends, or it is started again."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from django.db import transaction

from runs.causes import STOOD_STILL
from runs.models import Attempt, Placement, Run
from runs.records.checkpoints import read as checkpoints
from runs.records.metrics.models import Telemetry
from runs.records.metrics.progress import facts_of
from runs.recovery.policy import LEFT_OUT_S, Restart, Stop, decide, is_behind, restart_sentence
from runs.values.columns import AttemptFailure, LeftOutNode, Recovery
from runs.values.status import Status, Wanted
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.causes import Cause, CauseClass
from trainyard.contract.facts import IN_MEMORY, InMemoryFacts
from trainyard.contract.orders import LogAction
from trainyard.contract.reports import RuleMatch
from trainyard.spec.sections.restarts import RestartRules

MATCHED = "log-rule"
FOLLOWS: dict[LogAction, str] = {
    "exclude-node": " If the run is started again, {node} is left out.",
    "no-retry": " If the run fails, it is not started again.",
}


def record_matches(attempts: Iterable[Attempt]) -> None:
    """Write an event for each rule of a person that lines of these attempts have met since the last time."""
    for attempt in attempts:
        if found := matches_of(list(attempt.placements.all())):
            _record(attempt, found)


def matches_of(placements: Sequence[Placement]) -> list[tuple[Placement, RuleMatch]]:
    """Return the matches of rules that people wrote, the earliest first. Those that ship with Trainyard only label."""
    found = [
        (placement, match)
        for placement in placements
        if placement.report.get("matches")
        for match in placement.reported.matches
        if not match.is_builtin and match.action != "metric"
    ]
    return sorted(found, key=lambda one: one[1].at)


def _record(attempt: Attempt, found: Sequence[tuple[Placement, RuleMatch]]) -> None:
    if {match.label for _, match in found} <= set(_recorded(attempt)):
        return
    with transaction.atomic():
        Attempt.objects.select_for_update().get(pk=attempt.pk)  # another process may be at the same
        known = set(_recorded(attempt))
        for placement, match in found:
            if match.label in known:
                continue
            known.add(match.label)
            data = {**to_builtins(match), "node": placement.node.name}
            attempt.run.record(MATCHED, sentence_of(match, placement.node.name), data=data, attempt=attempt)


def _recorded(attempt: Attempt) -> list[str]:
    return [str(data.get("label")) for data in attempt.events.filter(code=MATCHED).values_list("data", flat=True)]


def sentence_of(match: RuleMatch, node: str) -> str:
    line = " ".join(match.line.split())
    follows = FOLLOWS.get(match.action, "").format(node=node)
    return f"Rank {match.rank} on {node} printed what the rule {match.label} looks for ({line}).{follows}"


def left_out_by_rules(placements: Sequence[Placement], now: float) -> list[LeftOutNode]:
    """Return the nodes that a rule leaves out, each once."""
    found: dict[str, LeftOutNode] = {}
    for placement, match in matches_of(placements):
        if match.action == "exclude-node" and placement.node_id not in found:
            node, why = placement.node, f"rule {match.label} of the log"
            found[node.pk] = LeftOutNode(node=node.pk, name=node.name, why=why, until=now + LEFT_OUT_S)
    return list(found.values())


RESTARTING = "restarting"
RESTART_REST_LIMIT_S = 0.3  # a restart waits no longer for records that are on their way
# Failures that come from outside prove nothing about what the next attempt will meet in the same step.
FROM_OUTSIDE = frozenset(
    {CauseClass.PROCESS_LOST, CauseClass.NODE_LOST, CauseClass.NETWORK, CauseClass.INTERRUPTED, CauseClass.PREEMPTED,
     CauseClass.RESIZED, CauseClass.GPU_FAULT, CauseClass.STORAGE, CauseClass.UNKNOWN}
)  # fmt: skip
OUTSIDE_SIGNALS = (2, 9, 15)  # SIGINT, SIGKILL, SIGTERM: somebody sent them; others are crashes of the program itself


@dataclass(frozen=True)
class Outcome:
    """New values of the run, and of the attempt that failed."""

    status: Status
    code: str
    sentence: str
    failure: AttemptFailure
    recovery: Recovery
    recover_at: datetime | None = None


class Elsewhere(NamedTuple):
    """Room for a run elsewhere: on nodes beside those that it must not have."""

    ever: bool  # once all of them are idle and in contact
    now: bool


def outcome_of_failure(
    attempt: Attempt,
    placements: Sequence[Placement],
    *,
    cause: Cause,
    code: str,
    now: datetime,
    elsewhere: Callable[[frozenset[str]], Elsewhere],
) -> Outcome:
    """Ask the run's policy. ``code`` is that of the failure. ``elsewhere`` gets the ids of nodes that are left out."""
    run, sentence = attempt.run, cause.sentence
    failure = _failure(attempt, placements, cause, now)
    former = run.restarts
    rules = RestartRules.of(run.spec)
    decision = decide(rules, [*failures_of(run, former.after_fence), failure], now.timestamp())
    is_ending = run.wanted in (Wanted.PAUSE, Wanted.REQUEUE) and not attempt.is_replaced
    if run.wanted == Wanted.STOP or cause.evidence.get("action") == "stop":  # the latter is what hangs.action says
        decision = Stop()
    elif is_ending and rules.action_on(cause.cause_class) != "stop":
        return _ended_sooner(run, sentence, failure)
    room = Elsewhere(ever=True, now=True)
    if isinstance(decision, Restart) and (out := frozenset(one.node for one in decision.left_out if one.is_excluded)):
        room = elsewhere(out)
        if cause.cause_class == CauseClass.NODE_UNFIT and not room.ever:  # there is nothing to wait for
            decision = Stop("No other node could take it.")
    no_retry = (match.label for _, match in matches_of(placements) if match.action == "no-retry")
    if isinstance(decision, Restart) and (label := next(no_retry, "")):
        decision = Stop(f"The rule {label} of the log says that it is not restarted.")
    if isinstance(decision, Stop):
        words = f"{sentence.rstrip('.')}. {decision.sentence}" if decision.sentence else sentence
        return Outcome(Status.FAILED, code, words, failure, msgspec.structs.replace(former, left_out=[]))
    recovery = _with_memory(_recovery(run, rules, decision, failure), failure)
    due_at = datetime.fromtimestamp(recovery.due_at, UTC)
    words = f"{sentence.rstrip('.')}. {restart_sentence(recovery, has_room=room.now)}"
    return Outcome(Status.RECOVERING, RESTARTING, words, failure, recovery, due_at)


def _ended_sooner(run: Run, sentence: str, failure: AttemptFailure) -> Outcome:
    """Return the outcome of a run that was to end gracefully and go on later, and failed: it goes on all the same."""
    is_pause = run.wanted == Wanted.PAUSE
    status, code = (Status.PAUSED, "paused") if is_pause else (Status.QUEUED, "preempted")
    doing = "It was being paused" if is_pause else "It was making room for another run"
    kept = failure.kept_step
    where = f" from step {kept:,}" if kept is not None else "" if run.is_script else " from the start"
    words = f"{sentence.rstrip('.')}. {doing}: it goes on{where} {'when it is resumed' if is_pause else 'later'}."
    return Outcome(status, code, words, failure, run.restarts)


def may_restart(run: Run, cause: CauseClass) -> bool:
    """Return whether a failure of this class may have the run started again."""
    rules = RestartRules.of(run.spec)
    return rules.max > 0 and rules.action_on(cause) != "stop" and run.wanted in (Wanted.RUN, Wanted.RESIZE)


def failures_of(run: Run, after_fence: int) -> list[AttemptFailure]:
    """Return the failures of the attempts after this one, oldest first."""
    ended = run.attempts.filter(fence__gt=after_fence).exclude(failure=None).order_by("fence")
    return [failure for one in ended if (failure := one.failed) is not None]


def _recovery(run: Run, rules: RestartRules, restart: Restart, failure: AttemptFailure) -> Recovery:
    former, is_open = run.restarts, is_behind(run)  # then it has the steps of both before it, and the time
    new = {one.node for one in restart.left_out}
    return Recovery(
        failed_fence=failure.fence,
        after_fence=former.after_fence,
        number=restart.number,
        total=former.total + 1,
        max=rules.max,
        cause=failure.cause,
        failed_at=failure.at,
        broke_at=failure.broke_at if not is_open else min(failure.broke_at, former.broke_at or former.failed_at),
        due_at=failure.at + restart.pause_s,
        step=max(failure.step or 0, former.step or 0) or None if is_open else failure.step,
        from_step=failure.kept_step,
        is_script=run.is_script,
        # One that was left out before stays so for its time, also where a person asked for it.
        left_out=[*restart.left_out, *(one for one in former.left_out_at(failure.at) if one.node not in new)],
    )


def _with_memory(recovery: Recovery, failure: AttemptFailure) -> Recovery:
    """Expect the restart to go on from what ranks of the attempt reported to be in memory, where that is as new."""
    newest = failure.memory_step
    if newest is None or newest < (recovery.from_step or 0):
        return recovery
    return msgspec.structs.replace(recovery, from_step=newest, source="memory")


def _failure(attempt: Attempt, placements: Sequence[Placement], cause: Cause, now: datetime) -> AttemptFailure:
    name = cause.node or str((cause.evidence.get("silent") or [""])[0])  # the first of those that are out of contact
    node = next((one.node_id for one in placements if one.node.name == name), "")
    told = Telemetry.objects.filter(pk=attempt.run_id, attempt=attempt.fence).values_list("step", "step_at").first()
    step, step_at = told or (None, None)
    kept = checkpoints.candidates(attempt.run_id, before=attempt.fence + 1, number=1)
    in_memory = facts_of(attempt.run_id, IN_MEMORY, InMemoryFacts, attempt=attempt.fence).values()
    return AttemptFailure(
        fence=attempt.fence,
        cause=cause.cause_class,
        at=now.timestamp(),
        broke_at=_broke_at(attempt, placements, cause.cause_class, step_at, now.timestamp()),
        signature=signature_of(cause.cause_class, cause.evidence),
        node=node,
        node_name=name,
        step=step,
        kept_step=kept[0].step if kept else None,
        memory_step=max((one.step for one in in_memory if one.step), default=None),
        left_out=left_out_by_rules(placements, now.timestamp()),
    )


def _broke_at(
    attempt: Attempt, placements: Sequence[Placement], cause: CauseClass, step_at: float | None, now: float
) -> float:
    """Return when the first rank ended, by its node's clock; of ranks that stood still or were not heard, when the last
    known step was."""
    began = attempt.go_at.timestamp() if attempt.go_at is not None else now
    if cause in STOOD_STILL:
        return min(max(began, step_at or began), now)
    ended = [rank.ended_at for one in placements for rank in one.reported.ranks if rank.ended_at is not None]
    return min(max(began, min(ended, default=now)), now)


def signature_of(cause: CauseClass, evidence: JsonObject) -> str:
    """Return what two failures have in common that are one and the same; empty where nobody can know."""
    signal = evidence.get("signal")
    if cause in FROM_OUTSIDE or (signal in OUTSIDE_SIGNALS and cause == CauseClass.KILLED):
        return ""
    lines = str(evidence.get("traceback") or "").strip().splitlines()
    exception = lines[-1].partition(":")[0] if lines else ""
    return "/".join(str(part) for part in (cause, exception, signal, evidence.get("exit_code")) if part)
