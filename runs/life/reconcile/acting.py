"""Following the live attempts: reading their reports, and doing what results from them."""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import structlog
from django.db import transaction
from msgspec.structs import replace

from runs.causes import MISSING_S, PlacementState
from runs.engines import brings_nodes, engine_of
from runs.life import replacing, rewinding, stopping
from runs.life.hangs import record_hang
from runs.life.reconcile.desired import wanted_of_placement
from runs.life.reconcile.judge import REST_LIMIT_S, Case, Verdict, judge
from runs.life.reconcile.listening import Listener, forget, later
from runs.life.reconcile.placing import elsewhere
from runs.life.reconcile.restoring import memory_order_of, missing_origin, offered_to, place_of
from runs.models import Allocation, Attempt, HeldSlot, Placement, Run
from runs.models.attempts import REWIND
from runs.models.runs import StaleStatus
from runs.records.metrics import bulk, progress
from runs.records.metrics.models import Telemetry
from runs.recovery.failing import RESTART_REST_LIMIT_S, may_restart, outcome_of_failure
from runs.serving import broadcast
from runs.values.status import OVER, Phase, Status, TransitionError, Wanted
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import Cause, CauseClass
from trainyard.contract.orders import CheckpointReference, Go
from trainyard.formats.words import listed
from trainyard.grouping import grouped
from trainyard.spec.sections.parallel import outlives_workers
from trainyard.spec.values.durations import time_limit_s, words_of

log = structlog.get_logger(__name__)

WRITE_EVERY_S = 2.0  # how exactly a row knows when its node last sent something


def live_attempts() -> list[Attempt]:
    attempts = Attempt.objects.filter(ended_at=None).select_related("run__cluster")
    return list(attempts.prefetch_related("placements__node"))


def take_reports(placements: Sequence[Placement], listener: Listener) -> None:
    """Write the reports into the placements' rows, at once where one has news, else now and then."""
    reports = listener.read_reports(placements)
    rows, over = list[bulk.Row](), list[Placement]()
    for placement in sorted(placements, key=lambda one: one.pk):  # all writers lock them in this order
        report = reports.get(placement.pk)
        if report is None or listener.attempt_silent_s(placement) > 0:
            continue
        phase = later(Phase(placement.phase), report.phase)
        document = to_builtins(report)
        is_new = phase != placement.phase or {**document, "at": 0} != {**placement.report, "at": 0}
        last = placement.reported_at
        if is_new or last is None or (listener.now - last).total_seconds() >= WRITE_EVERY_S:
            if phase == report.phase:
                placement.report = document
            placement.phase = phase
            placement.reported_at = listener.now
            rows.append((phase, json.dumps(placement.report), bulk.time_value(listener.now), placement.pk))
        if phase in OVER:
            over.append(placement)
    if rows or over:
        with transaction.atomic():
            bulk.update(Placement, ("phase", "report", "reported_at"), rows)
            HeldSlot.objects.filter(placement__in=over).delete()


def follow(attempt: Attempt, listener: Listener) -> bool:
    """Judge the attempt and do what follows. Returns whether anything changed."""
    placements = list(attempt.placements.all())
    for placement in placements:
        placement.attempt = attempt
    take_reports(placements, listener)
    try:
        if stopping.is_over_time(attempt, listener.now):
            _stop_at_limit(attempt, listener.now)
            return True
        if _is_waiting_for_nodes(attempt):
            return False
        _describe_what_keeps_it(attempt, placements, listener)
        case = _case(attempt, placements, listener)
        silent = [part.node for part in case.parts if part.is_silent and not part.is_stopped]
        is_hung = record_hang(attempt, placements, listener.now, silent=silent)
        changed = _do(attempt, placements, judge(case), listener.now) or is_hung
        if changed and attempt.settling_at == listener.now:  # it may be settled at once: nothing else may be on its way
            _do(attempt, placements, judge(_case(attempt, placements, listener)), listener.now)
        return changed
    except (StaleStatus, TransitionError) as error:  # somebody was faster: the next tick sees what is
        log.info("follow.overtaken", run=attempt.run_id, error=str(error))
        return False


def _is_waiting_for_nodes(attempt: Attempt) -> bool:
    """Return whether the engine has yet to bring nodes of the attempt; the run's row has the reason then."""
    cluster = attempt.run.cluster
    if attempt.go is not None or attempt.run.wanted != Wanted.RUN or cluster is None:
        return False
    if not (sentence := engine_of(cluster).pending(attempt)):
        return False
    _write_reason(attempt, "waiting-for-nodes", sentence)
    return True


def _describe_what_keeps_it(attempt: Attempt, placements: Sequence[Placement], listener: Listener) -> None:
    """Write on the row of a run that waits for its nodes what keeps one of them. No event: it may end by itself."""
    if attempt.go is not None or attempt.run.status != Status.SCHEDULED:
        return
    statuses = [(one.node.name, listener.statuses.get(one.node_id)) for one in placements]
    reasons = [(node, status.troubles.get(attempt.pk)) for node, status in statuses if status is not None]
    troubles = [f"{node} cannot prepare it yet: {why[:500]}" for node, why in reasons if why]
    names = listed([one.node.name for one in placements])
    preparing = preparations(placements)
    sentence = f"Placed on {names}; {'; '.join(troubles)}. It is tried again." if troubles else f"Placed on {names}."
    sentence += "".join(f" {one}." for one in preparing)
    if troubles or preparing or attempt.run.reason_code in ("not-prepared", "preparing", "waiting-for-nodes"):
        _write_reason(attempt, "not-prepared" if troubles else "preparing" if preparing else "placed", sentence)


def preparations(placements: Sequence[Placement]) -> list[str]:
    """Return what the nodes prepare, each sentence once, with those nodes where it is not all of them."""
    preparing = [one for one in placements if one.phase == Phase.PREPARING and one.reported.preparation]
    nodes = grouped((one.reported.preparation, one.node.name) for one in preparing)
    return [words if len(at) == len(placements) else f"{words} on {listed(at)}" for words, at in nodes.items()]


def _write_reason(attempt: Attempt, code: str, sentence: str) -> None:
    """Write why the run is still SCHEDULED."""
    rows = Run.objects.filter(pk=attempt.run_id, status=Status.SCHEDULED).exclude(reason_sentence=sentence)
    if rows.update(reason_code=code, reason_sentence=sentence):
        broadcast.run_changed(attempt.run_id)


def _stop_at_limit(attempt: Attempt, now: datetime) -> None:
    limit = words_of(time_limit_s(attempt.run.spec) or 0.0)
    sentence = f"The time limit of {limit} is over: {stopping.what_follows(attempt.run, attempt)}."
    stopping.begin(attempt.run, attempt, why=stopping.TIME_LIMIT, code="time-limit", sentence=sentence, now=now)


def _case(attempt: Attempt, placements: Sequence[Placement], listener: Listener) -> Case:
    def age_s(at: datetime | None) -> float | None:
        return None if at is None else (listener.now - at).total_seconds()

    out_of_contact_s = age_s(attempt.contact_lost_at)
    if out_of_contact_s is not None:  # counts anew after control was away
        out_of_contact_s = min(out_of_contact_s, listener.now.timestamp() - listener.since)
    run, counts = attempt.run, attempt.run.allowed_counts
    has_machines = run.cluster is not None and brings_nodes(run.cluster)  # else its nodes stay
    allocation = Allocation.objects.filter(attempt=attempt).first() if has_machines else None
    return Case(
        status=Status(run.status),
        wanted=Wanted(run.wanted),
        has_go=attempt.go is not None,
        parts=[_state(placement, listener) for placement in placements],
        lease_s=attempt.lease_s,
        out_of_contact_s=out_of_contact_s,
        settling_s=age_s(attempt.settling_at),
        is_complete=lambda: is_complete(attempt, placements),
        outlives_workers=outlives_workers(run.spec),
        least_nodes=counts[0] if counts and may_restart(run, CauseClass.NODE_LOST) else None,
        zero_means_finished="recipe" in run.spec.get("task", {}),
        # Records say of which attempt they are, and a restart needs of them only what the last checkpoints are.
        rest_limit_s=lambda cause: RESTART_REST_LIMIT_S if may_restart(run, cause) else REST_LIMIT_S,
        stopped=lambda: stopping.outcome(run.spec, attempt.stop, [one.reported for one in placements]),
        ending=None if allocation is None else allocation.known_ending,
        may_end=allocation is not None and allocation.state != Allocation.State.OVER,
    )


def _state(placement: Placement, listener: Listener) -> PlacementState:
    return PlacementState(
        node=placement.node.name,
        phase=Phase(placement.phase),
        report=placement.reported,
        silent_s=listener.attempt_silent_s(placement),
        is_answering=listener.is_answering(placement.node),
        is_listed=listener.lists(placement),
        num_ranks=placement.num_ranks,
        first_rank=placement.first_rank,
        lease_s=placement.attempt.lease_s,
        unheard_s=listener.attempt_unheard_s(placement),
        is_stopped=listener.is_stopped(placement),
    )


def is_complete(attempt: Attempt, placements: Sequence[Placement]) -> bool:
    """Return whether every record that the attempt's producers wrote is in the database."""
    expected = {name: last for one in placements for name, last in one.reported.producers.items()}
    return progress.is_complete(attempt.run_id, expected)


def _do(attempt: Attempt, placements: Sequence[Placement], verdict: Verdict, now: datetime) -> bool:
    changed = _record_contact(attempt, verdict, now)
    if verdict.go:
        offered = offered_to(attempt)
        if not (origin := missing_origin(attempt, offered)):
            return _go(attempt, placements, offered, now)
        sentence = f"Checkpoint {origin}, from which this run was to go on, is not there any more."
        cause = Cause(cause_class=CauseClass.REFUSED, sentence=sentence, evidence={"checkpoint": origin})
        verdict = Verdict(Status.FAILED, "checkpoint-gone", sentence, cause.evidence, ends=True, cause=cause)
    if verdict.settles and attempt.settling_at is None:
        attempt.settling_at = now
        attempt.save(update_fields=["settling_at"])
        return True
    if verdict.status is None:
        return changed
    if verdict.status == Status.FAILED:
        return _fail(attempt, placements, verdict, now)
    if verdict.status == Status.PAUSED and attempt.is_replaced:
        is_back = attempt.stop is not None and attempt.stop["why"] == REWIND
        words = rewinding.ended_sentence(attempt.run) if is_back else verdict.sentence
        replacing.place_anew(attempt, sentence=words, cause=verdict.cause, now=now)
        return True
    with transaction.atomic():
        attempt.run.move_to(
            verdict.status,
            code=verdict.code,
            sentence=verdict.sentence,
            evidence=verdict.evidence,
            attempt=attempt,
            recover_at=now if verdict.ends and verdict.status == Status.RESIZING else None,
        )
        if verdict.ends:
            attempt.end(now, code=verdict.code, sentence=verdict.sentence, cause=verdict.cause)
    return True


def _fail(attempt: Attempt, placements: Sequence[Placement], verdict: Verdict, now: datetime) -> bool:
    """End the attempt, and with it the run unless its policy has it started again."""
    own = Telemetry.objects.filter(pk=attempt.run_id, attempt=attempt.fence)  # an earlier one may have been further
    step = own.values_list("step", flat=True).first()
    evidence = {**verdict.evidence, "step": step}
    assert verdict.cause is not None
    sentence = verdict.sentence
    if verdict.cause.rank is not None and "stacks" not in evidence and step is not None:
        sentence = f"{sentence.rstrip('.')} in step {step:,}."  # the sentence of a hang names the rank's own step
    cause = replace(verdict.cause, sentence=sentence, evidence=evidence)
    other = partial(elsewhere, attempt, placements, now=now)
    outcome = outcome_of_failure(attempt, placements, cause=cause, code=verdict.code, now=now, elsewhere=other)
    with transaction.atomic():
        changes = {
            "ended_at": now,
            "reason_code": verdict.code,
            "reason_sentence": sentence,
            "cause": to_builtins(cause),
            "failure": to_builtins(outcome.failure),
        }
        if not Attempt.objects.filter(pk=attempt.pk, ended_at=None).update(**changes):
            raise StaleStatus(f"attempt {attempt.pk} has ended already")
        attempt.run.move_to(
            outcome.status,
            code=outcome.code,
            sentence=outcome.sentence,
            evidence=evidence,
            attempt=attempt,
            recover_at=outcome.recover_at,
        )
        attempt.run.recovery = to_builtins(outcome.recovery)
        if outcome.status == Status.RECOVERING:  # also where its ranks failed while they were to be replaced
            attempt.run.wanted = Wanted.RUN
        attempt.run.save(update_fields=["recovery", "wanted"])
    for name, value in changes.items():
        setattr(attempt, name, value)
    return True


def _record_contact(attempt: Attempt, verdict: Verdict, now: datetime) -> bool:
    if verdict.is_out_of_contact == (attempt.contact_lost_at is not None):
        return False
    attempt.contact_lost_at = now if verdict.is_out_of_contact else None
    attempt.save(update_fields=["contact_lost_at"])
    return True


def _go(
    attempt: Attempt, placements: Sequence[Placement], offered: Sequence[CheckpointReference], now: datetime
) -> bool:
    """Every node is ready: name the meeting point and what there is to go on from, once."""
    first = placements[0].reported
    if first.address is None or first.port is None:
        return False  # its report is of a version that names no meeting point
    skips = rewinding.skips_of(attempt.run)
    workers = [f"{one.reported.address}:{port}" for one in placements for port in one.reported.ports]
    go = to_builtins(Go(first.address, first.port, list(offered), memory_order_of(attempt), skips, workers))
    words = "Every node is ready; the ranks start."
    if attempt.number > 1 and not offered:
        anew = "again; no checkpoint was reported" if attempt.run.is_script else "anew: there is no checkpoint"
        words = f"Every node is ready; the ranks start {anew} of an earlier attempt."
    if offered:
        newest = place_of(attempt, offered[0].run, offered[0].step, offered[0].fence)
        words = f"Every node is ready; the ranks start, from {newest} where that is sound."
    if attempt.run.restarts.source == "memory":
        step = attempt.run.restarts.from_step or 0
        words = f"Every node is ready; the ranks start, from step {step:,} or newer in memory, else from storage."
    if skips:
        words = f"{words[:-1]}; {rewinding.left_out(attempt.run)}."
    with transaction.atomic():
        if not Attempt.objects.filter(pk=attempt.pk, go__isnull=True, ended_at=None).update(go=go, go_at=now):
            return False
        attempt.run.move_to(Status.STARTING, code="starting", sentence=words, attempt=attempt)
    attempt.go, attempt.go_at = go, now
    if attempt.run.cluster is not None:  # before the documents are written: every rank waits for it
        for placement in placements:
            engine_of(attempt.run.cluster).nudge(placement.node, {attempt.pk: wanted_of_placement(placement)})
    return True


def free_slots(listener: Listener) -> bool:
    """Free the slots of ended attempts whose node says that nothing of them is left. Returns whether any were."""
    held = HeldSlot.objects.exclude(placement__attempt__ended_at=None).values("placement")
    waiting = list(Placement.objects.filter(pk__in=held).select_related("attempt__run", "node"))
    if not waiting:
        return False
    take_reports(waiting, listener)
    over = [placement for placement in waiting if placement.phase in OVER or _has_vanished(placement, listener)]
    HeldSlot.objects.filter(placement__in=over).delete()
    forget(over)
    return bool(over)


def _has_vanished(placement: Placement, listener: Listener) -> bool:
    """The node answers and has no folder of the attempt, some time after the attempt ended."""
    ended_at = placement.attempt.ended_at
    if ended_at is None or not listener.is_answering(placement.node) or listener.lists(placement):
        return False
    return (listener.now - ended_at).total_seconds() > MISSING_S
