"""Looking at the live attempts, and doing what follows from what was heard of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import structlog
from django.db import transaction

from runs import broadcast, engine, stopping
from runs.metrics import progress
from runs.metrics.models import Telemetry
from runs.models import Attempt, HeldSlot, Placement, Run
from runs.models.runs import StaleStatus
from runs.reconcile.hear import Ear, forget, later
from runs.reconcile.judge import MISSING_S, OVER, Case, Part, Verdict, judge
from runs.reconcile.restoring import missing_origin, offered_to, place_of
from runs.status import Phase, Status, TransitionError, Wanted
from trainyard.contract import keys
from trainyard.formats.words import listed
from trainyard.spec.survival import outlives_workers
from trainyard.spec.values.durations import time_limit_s, words_of
from workers import contract

log = structlog.get_logger(__name__)

WRITE_EVERY_S = 2.0  # how exactly a row knows when its node was last heard


def live_attempts() -> list[Attempt]:
    attempts = Attempt.objects.filter(ended_at=None).select_related("run")
    return list(attempts.prefetch_related("placements__node"))


def take_reports(placements: Sequence[Placement], ear: Ear) -> None:
    """Write what was heard into the placements' rows, at once when it says something new, else now and then."""
    reports = ear.listen_to_attempts(placements)
    for placement in placements:
        report = reports.get(placement.pk)
        if report is None or ear.attempt_silent_s(placement) > 0:
            continue
        phase = later(Phase(placement.phase), Phase(report["phase"]))
        is_new = phase != placement.phase or {**report, "at": 0} != {**placement.report, "at": 0}
        last = placement.reported_at
        if is_new or last is None or (ear.now - last).total_seconds() >= WRITE_EVERY_S:
            if phase == report["phase"]:
                placement.report = report
            placement.phase = phase
            placement.reported_at = ear.now
            placement.save(update_fields=["phase", "report", "reported_at"])
        if phase in OVER:
            HeldSlot.objects.filter(placement=placement).delete()


def follow(attempt: Attempt, ear: Ear) -> bool:
    """Judge the attempt and do what follows. Returns whether anything changed."""
    placements = list(attempt.placements.all())
    for placement in placements:
        placement.attempt = attempt
    take_reports(placements, ear)
    try:
        if stopping.is_over_time(attempt, ear.now):
            _stop_at_limit(attempt, ear.now)
            return True
        _say_why_not_prepared(attempt, placements, ear)
        changed = _do(attempt, placements, judge(_case(attempt, placements, ear)), ear.now)
        if changed and attempt.settling_at == ear.now:  # it may be settled at once: nothing else may be on its way
            _do(attempt, placements, judge(_case(attempt, placements, ear)), ear.now)
        return changed
    except (StaleStatus, TransitionError) as error:  # somebody was faster: the next tick sees what is
        log.info("follow.overtaken", run=attempt.run_id, error=str(error))
        return False


def _say_why_not_prepared(attempt: Attempt, placements: Sequence[Placement], ear: Ear) -> None:
    """Write on the row of a run that waits for its nodes what keeps one of them. No event: it may end by itself."""
    if attempt.go is not None or attempt.run.status != Status.SCHEDULED:
        return
    said = [(one.node.name, ear.ups.get(one.node_id, {}).get("troubles", {}).get(attempt.pk)) for one in placements]
    troubles = [f"{node} cannot prepare it yet: {why[:500]}" for node, why in said if why]
    names = listed([one.node.name for one in placements])
    sentence = f"Placed on {names}; {'; '.join(troubles)}. It is tried again." if troubles else f"Placed on {names}."
    if troubles or attempt.run.reason_code == "not-prepared":
        changes = {"reason_code": "not-prepared" if troubles else "placed", "reason_sentence": sentence}
        rows = Run.objects.filter(pk=attempt.run_id, status=Status.SCHEDULED).exclude(reason_sentence=sentence)
        if rows.update(**changes):
            broadcast.run_changed(attempt.run_id)


def _stop_at_limit(attempt: Attempt, now: datetime) -> None:
    limit = words_of(time_limit_s(attempt.run.spec) or 0.0)
    sentence = f"The time limit of {limit} is over: {stopping.what_follows(attempt.run, attempt)}."
    stopping.begin(attempt.run, attempt, why=stopping.TIME_LIMIT, code="time-limit", sentence=sentence, now=now)


def _case(attempt: Attempt, placements: Sequence[Placement], ear: Ear) -> Case:
    def age_s(at: datetime | None) -> float | None:
        return None if at is None else (ear.now - at).total_seconds()

    out_of_contact_s = age_s(attempt.contact_lost_at)
    if out_of_contact_s is not None:  # the lease counts anew after control was away
        out_of_contact_s = min(out_of_contact_s, ear.now.timestamp() - ear.since)
    return Case(
        status=Status(attempt.run.status),
        wanted=Wanted(attempt.run.wanted),
        has_go=attempt.go is not None,
        parts=[_part(placement, ear) for placement in placements],
        lease_s=attempt.lease_s,
        out_of_contact_s=out_of_contact_s,
        settling_s=age_s(attempt.settling_at),
        is_complete=lambda: is_complete(attempt, placements),
        outlives_workers=outlives_workers(attempt.run.spec),
        stopped=lambda: stopping.outcome(attempt.run.spec, attempt.stop, [one.report for one in placements]),
    )


def _part(placement: Placement, ear: Ear) -> Part:
    return Part(
        node=placement.node.name,
        phase=Phase(placement.phase),
        report=placement.report,
        silent_s=ear.attempt_silent_s(placement),
        is_answering=ear.is_answering(placement.node),
        is_listed=ear.lists(placement),
        num_ranks=placement.num_ranks,
        first_rank=placement.first_rank,
    )


def is_complete(attempt: Attempt, placements: Sequence[Placement]) -> bool:
    """Whether every record that the attempt's producers wrote is in the database."""
    expected: dict[str, int] = {}
    for placement in placements:
        expected |= placement.report.get("producers") or {}
    return progress.is_complete(attempt.run_id, expected)


def _do(attempt: Attempt, placements: Sequence[Placement], verdict: Verdict, now: datetime) -> bool:
    changed = _note_contact(attempt, verdict, now)
    if verdict.go:
        offered = offered_to(attempt)
        if (origin := missing_origin(attempt, offered)) is None:
            return _go(attempt, placements, offered, now)
        sentence = f"Checkpoint {origin}, from which this run was to go on, is not there any more."
        verdict = Verdict(Status.FAILED, "checkpoint-gone", sentence, {"checkpoint": str(origin)}, ends=True)
    if verdict.settles and attempt.settling_at is None:
        attempt.settling_at = now
        attempt.save(update_fields=["settling_at"])
        return True
    if verdict.status is None:
        return changed
    evidence = dict(verdict.evidence)
    if verdict.status == Status.FAILED:
        evidence["step"] = Telemetry.objects.filter(pk=attempt.run_id).values_list("step", flat=True).first()
    with transaction.atomic():
        attempt.run.move_to(
            verdict.status,
            code=verdict.code,
            sentence=_with_step(verdict.sentence, evidence),
            evidence=evidence,
            attempt=attempt,
        )
        if verdict.ends:
            attempt.ended_at = now
            attempt.reason_code, attempt.reason_sentence = verdict.code, attempt.run.reason_sentence
            attempt.save(update_fields=["ended_at", "reason_code", "reason_sentence"])
    return True


def _with_step(sentence: str, evidence: dict[str, object]) -> str:
    step = evidence.get("step")
    return f"{sentence.rstrip('.')} in step {step:,}." if isinstance(step, int) and "rank" in evidence else sentence


def _note_contact(attempt: Attempt, verdict: Verdict, now: datetime) -> bool:
    if verdict.is_out_of_contact == (attempt.contact_lost_at is not None):
        return False
    attempt.contact_lost_at = now if verdict.is_out_of_contact else None
    attempt.save(update_fields=["contact_lost_at"])
    return True


def _go(attempt: Attempt, placements: Sequence[Placement], offered: Sequence[contract.Document], now: datetime) -> bool:
    """Every node is ready: name the meeting point and what there is to go on from, once, and say so."""
    head = placements[0].report
    go = {"master_addr": head["address"], "master_port": head["port"], "checkpoints": list(offered)}
    words = "Every node is ready; the ranks start."
    if attempt.number > 1 and not offered:
        words = "Every node is ready; the ranks start anew: there is no checkpoint of an earlier attempt."
    if offered:
        newest = place_of(attempt, offered[0]["run"], offered[0]["step"], offered[0]["fence"])
        words = f"Every node is ready; the ranks start, from {newest} where that is sound."
    with transaction.atomic():
        if not Attempt.objects.filter(pk=attempt.pk, go__isnull=True, ended_at=None).update(go=go, go_at=now):
            return False
        attempt.run.move_to(Status.STARTING, code="starting", sentence=words, attempt=attempt)
    attempt.go, attempt.go_at = go, now
    for placement in placements:
        document = {"attempt": attempt.pk, "run": attempt.run_id, "fence": attempt.fence, "go": go}
        engine.command(placement.node, keys.GO, document)
    return True


def free_slots(ear: Ear) -> bool:
    """Free the slots of ended attempts whose node says that nothing of them is left. Returns whether any were."""
    held = HeldSlot.objects.exclude(placement__attempt__ended_at=None).values("placement")
    waiting = list(Placement.objects.filter(pk__in=held).select_related("attempt__run", "node"))
    if not waiting:
        return False
    take_reports(waiting, ear)
    over = [placement for placement in waiting if placement.phase in OVER or _has_vanished(placement, ear)]
    HeldSlot.objects.filter(placement__in=over).delete()
    forget(over)
    return bool(over)


def _has_vanished(placement: Placement, ear: Ear) -> bool:
    """The node answers and has no folder of the attempt, some time after the attempt ended."""
    ended_at = placement.attempt.ended_at
    if ended_at is None or not ear.is_answering(placement.node) or ear.lists(placement):
        return False
    return (ear.now - ended_at).total_seconds() > MISSING_S
