"""Ending the ranks of a run gracefully, for good, a pause or other nodes: who wants it, and the words for it."""

import signal
from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired, TypedDict

from django.db import transaction

from runs.models import Attempt, Run, User
from runs.models.attempts import REPLACE, REWIND
from runs.models.runs import PRUNED, StaleStatus
from runs.values.status import Status, Wanted
from trainyard.contract.base import BadDocument, JsonObject, SpecDocument, convert
from trainyard.contract.reports import AttemptReport, SavedStep, StopEvidence
from trainyard.formats.words import listed
from trainyard.spec.values.durations import grace_s, time_limit_s, words_of

ASKED, TIME_LIMIT, RULE, SWEEP_ENDED, IDLE = "asked", "time-limit", "rule", "sweep-ended", "idle"
PAUSE, RESIZE, PREEMPTED = "pause", "resize", "preempted"
# Wanted state of the run, by why its ranks are to end; any other: that it ends for good.
WANTED = {**dict.fromkeys((PAUSE, REPLACE, REWIND), Wanted.PAUSE), RESIZE: Wanted.RESIZE, PREEMPTED: Wanted.REQUEUE}
# Of an end with words of its own, most of which are none for the run: the code, and the words.
OUTCOMES = {
    PAUSE: ("paused", "Paused as asked"),
    REPLACE: ("placed-anew", "Ended to go on without a node"),
    REWIND: ("placed-anew", "Ended to go back"),
    RESIZE: ("resized", "Ended for the other number of nodes"),
    PREEMPTED: ("preempted", "Made room"),
    RULE: ("stopped", "Stopped by its rule on a metric"),
    PRUNED: (PRUNED, "Stopped by its sweep"),
    SWEEP_ENDED: (SWEEP_ENDED, "Stopped with its sweep"),
    IDLE: (IDLE, "Stopped as idle"),
}
TWICE_S = 1.0  # so soon after the first, a second Stop is a double click
MAX_NAMED = 4


class StopDocument(TypedDict):
    """The wish to end, as its attempt keeps it."""

    why: str  # ASKED, TIME_LIMIT, RULE, or one of WANTED
    at: float
    at_once: bool
    first_words: NotRequired[str]  # how the sentence of the end begins


def begin(
    run: Run,
    attempt: Attempt | None,
    *,
    why: str,
    sentence: str,
    code: str,
    now: datetime,
    actor: User | None = None,
    at_once: bool = False,
    first_words: str = "",
) -> None:
    """Let the ranks be asked to end, or be killed ``at_once``. ``first_words``: how the sentence of the end begins.

    Raises what ``move_to`` raises; nothing is written then.
    """
    with transaction.atomic():
        run.wanted = WANTED.get(why, Wanted.STOP)
        Run.objects.filter(pk=run.pk).update(wanted=run.wanted)
        if attempt is not None and (attempt.stop is None or attempt.stop["why"] in WANTED):
            attempt.stop = {"why": why, "at": now.timestamp(), "at_once": at_once}
            attempt.stop |= {"first_words": first_words} if first_words else {}
            attempt.save(update_fields=["stop"])
        status = Status.RESIZING if why == RESIZE else Status.STOPPING
        run.move_to(status, code=code, sentence=sentence, actor=actor, attempt=attempt)


def instead_of_pause(run: Run, attempt: Attempt | None, *, actor: User, now: datetime) -> None:
    """Let a run that is being paused end for good. Raises StaleStatus where it has ended meanwhile."""
    sentence = f"{actor} asked to stop instead of pausing: {what_follows(run, attempt)}."
    with transaction.atomic():
        pausing = Run.objects.filter(pk=run.pk, status=Status.STOPPING, wanted=Wanted.PAUSE)
        if not pausing.update(wanted=Wanted.STOP, reason_code="stopping", reason_sentence=sentence):
            raise StaleStatus(f"run {run.pk} is not being paused any more")
        run.wanted, run.reason_code, run.reason_sentence = Wanted.STOP, "stopping", sentence
        if attempt is not None:
            attempt.stop = {"why": ASKED, "at": now.timestamp(), "at_once": False}
            attempt.save(update_fields=["stop"])
        run.record("stopping", sentence, actor=actor, attempt=attempt)


def hurry(run: Run, attempt: Attempt, *, actor: User, now: datetime) -> bool:
    """Let ranks that were asked to end be killed. False where there is nothing to hurry, or it was a double click."""
    stop = attempt.stop
    if attempt.go is None or stop is None or stop["at_once"] or now.timestamp() - stop["at"] < TWICE_S:
        return False
    sentence = f"{actor} asked to stop again: the ranks are killed at once."
    with transaction.atomic():
        attempt.stop = {**stop, "at_once": True}
        attempt.save(update_fields=["stop"])
        Run.objects.filter(pk=run.pk, status=Status.STOPPING).update(reason_sentence=sentence)
        run.reason_sentence = sentence
        run.record("stopping-at-once", sentence, actor=actor, attempt=attempt)
    return True


def is_over_time(attempt: Attempt, now: datetime) -> bool:
    """Return whether the ranks have run for as long as the spec lets them, and nobody has asked them to end."""
    if attempt.go_at is None or attempt.stop is not None or attempt.settling_at is not None:
        return False
    limit_s = time_limit_s(attempt.run.spec)
    return limit_s is not None and (now - attempt.go_at).total_seconds() >= limit_s


def what_follows(run: Run, attempt: Attempt | None) -> str:
    """Say what the ranks do now, and how to end them sooner."""
    what = what_ranks_do(run, attempt)
    return what if attempt is None or attempt.go is None else f"{what}. Stop again ends them at once"


def what_ranks_do(run: Run, attempt: Attempt | None) -> str:
    if attempt is None or attempt.go is None:
        return "nothing of it runs yet"
    grace = words_of(grace_s(run.spec))
    if run.saves_at_stop:
        return f"its ranks save a checkpoint and end, within {grace}"
    return f"its ranks have {grace} to end after SIGTERM"


def what_a_pause_does(run: Run, attempt: Attempt | None) -> str:
    """Say what the ranks do now, and what a resume finds again."""
    what = what_ranks_do(run, attempt)
    if attempt is None or attempt.go is None or run.saves_at_stop:
        return what
    again = "Resuming starts the script again: it finds the folder that TRAINYARD_CHECKPOINTS names"
    return f"{what}. {again}, and its working folder where it comes to the same nodes"


def outcome(
    spec: SpecDocument, stop: StopDocument | None, reports: Sequence[AttemptReport]
) -> tuple[str, str, JsonObject]:
    """Return code, sentence and evidence of a run that was stopped, of what its nodes reported last."""
    stop = stop or {"why": ASKED, "at": 0.0, "at_once": False}
    limit_s = time_limit_s(spec)
    is_late = stop["why"] == TIME_LIMIT and limit_s is not None
    first = f"Stopped at its time limit of {words_of(limit_s)}" if is_late and limit_s else "Stopped as asked"
    code = TIME_LIMIT if is_late else "stopped"
    if stop["why"] in OUTCOMES:
        code, first = OUTCOMES[stop["why"]]
    first = stop.get("first_words") or first
    stops = [found for report in reports if (found := _stop_of(report)) is not None]
    if not stops or not any(report.ranks for report in reports):
        return code, f"{first}.", {}
    took_s = max(one.took_s for one in stops)
    killed = sorted(rank for one in stops for rank in one.killed)
    saved = next((one.saved for one in stops if one.saved is not None), None)
    evidence = {"took_s": took_s, "killed": killed, "saved_step": saved.step if saved and saved.saved else None}
    words = _words(spec, stops, took_s, killed, saved, at_once=bool(stop["at_once"]))
    fallen = [one for report in reports for one in report.ranks if one.signal == signal.SIGKILL and not one.was_ended]
    if fallen and not killed and not (saved and saved.saved):
        ranks = sorted(one.rank for one in fallen)
        words = f"{_ranks(ranks)} {'was' if len(ranks) == 1 else 'were'} killed by SIGKILL (9) meanwhile"
        words += ", so that no step could be saved." if "recipe" in (spec.get("task") or {}) else "."
    return code, f"{first}: {words}", evidence


def _stop_of(report: AttemptReport) -> StopEvidence | None:
    """Return how the ranks of a node ended that were asked to stop; None where its report does not say."""
    if report.reason is None or report.reason.code != "stopped":
        return None
    try:
        return convert(report.reason.evidence or {}, StopEvidence)
    except BadDocument:  # of a node that was stopped before its ranks were there
        return None


def _words(
    spec: SpecDocument,
    stops: Sequence[StopEvidence],
    took_s: float,
    killed: Sequence[int],
    saved: SavedStep | None,
    *,
    at_once: bool,
) -> str:
    step = f"step {saved.step:,}" if saved else ""
    if killed:
        who = f"{_ranks(killed)} {'was' if len(killed) == 1 else 'were'} killed"
        if at_once:
            return f"{who} at once, {words_of(took_s)} after the first Stop.{_before(saved)}"
        grace = words_of(max(one.grace_s for one in stops))
        return f"{who} after {grace}, the grace that limits.grace gives.{_before(saved)}"
    if saved and saved.saved:
        return f"saved {step} and ended in {words_of(took_s)}."
    if saved and saved.saved is None:
        return f"ended behind {step} in {words_of(took_s)}. Nothing was saved: it keeps no checkpoints."
    if saved:
        return f"ended behind {step} in {words_of(took_s)}. Its checkpoint could not be kept; the log says why."
    if "recipe" in (spec.get("task") or {}):
        return f"ended in {words_of(took_s)}, without a step to save."
    return f"its ranks ended by themselves in {words_of(took_s)}."


def _before(saved: SavedStep | None) -> str:
    return f" Step {saved.step:,} was saved before." if saved and saved.saved else ""


def _ranks(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > MAX_NAMED:
        return f"{len(numbers)} ranks"
    return f"ranks {listed([str(number) for number in numbers])}"
