"""Judgement of a run by its nodes' reports: a pure function. Failing needs proof, and silence is never proof."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runs.causes import UNASKED, Failure, PlacementState, cause_of, cause_of_stop, failures_of, no_contact
from runs.causes.allocations import AllocationEnding, EndKind, code_of_ending, failure_of_ending
from runs.values.status import Phase, Status, Wanted
from trainyard.contract.base import JsonObject
from trainyard.contract.causes import Cause, CauseClass
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.failures.ranks import is_clean
from trainyard.failures.signs import Standing
from trainyard.formats.words import listed

STOP_LIMIT_S = 20.0  # a failed run does not wait longer than this for its other nodes to stop
REST_LIMIT_S = 5.0  # …and for the rest of its points and logs
SUCCESS_REST_LIMIT_S = 60.0
LOST_AFTER_S = 600.0  # out of contact for so long, or for its lease: LOST
SENTENCES = 3  # about ranks that a run went on without; all of them are in the evidence
INCOMPLETE = "telemetry-incomplete"


@dataclass(frozen=True)
class Case:
    """A live attempt and its run. Ages are in seconds; None where the thing has not happened."""

    status: Status
    wanted: Wanted
    has_go: bool
    parts: Sequence[PlacementState]
    lease_s: float
    out_of_contact_s: float | None
    settling_s: float | None
    is_complete: Callable[[], bool]  # whether every record that the ranks wrote has arrived
    stopped: Callable[[], tuple[str, str, JsonObject]] = lambda: ("stopped", "Stopped as asked.", {})  # its words
    outlives_workers: bool = False  # whether the run goes on as long as rank 0 does
    # Whether exit code 0 proves that the training is over: a rank of a recipe that stops early ends by SIGTERM. A
    # script may end with 0 because it was asked to.
    zero_means_finished: bool = False
    # How many nodes are enough for the run: it goes on at once without those that are out of contact. None: it waits.
    least_nodes: int | None = None
    rest_limit_s: Callable[[CauseClass], float] = lambda _: REST_LIMIT_S  # for what is on the way after this failure
    ending: AllocationEnding | None = None  # of the machines that an engine had brought; all parts are over then
    may_end: bool = False  # machines that an engine has brought are there: their system may be ending them


@dataclass(frozen=True)
class Verdict:
    """A decision about a run. ``status`` None leaves the status; ``ends`` ends the attempt; ``settles`` starts the wait
    for what is still on the way (and stops what still trains)."""

    status: Status | None = None
    code: str = ""
    sentence: str = ""
    evidence: JsonObject = field(default_factory=dict)
    ends: bool = False
    settles: bool = False
    go: bool = False
    is_out_of_contact: bool = False
    cause: Cause | None = None  # with ``ends``, but for a success


class End(NamedTuple):
    """Statuses of a run whose ranks are to end gracefully: while they do, and afterwards."""

    during: Status
    outcome: Status
    word: str
    code: str
    before_go: str


ENDS = {
    Wanted.STOP: End(Status.STOPPING, Status.CANCELLED, "stopping", "stopped", "Stopped as asked."),
    Wanted.PAUSE: End(
        Status.STOPPING, Status.PAUSED, "pausing", "paused", "Paused as asked, before a rank had started."
    ),
    Wanted.RESIZE: End(
        Status.RESIZING, Status.RESIZING, "resizing", "resized", "Called off before a rank had started, to be resized."
    ),
    Wanted.REQUEUE: End(
        Status.STOPPING, Status.QUEUED, "making-room", "preempted", "Made room before a rank had started."
    ),
}
# What nodes report, or do not any more, whose machines are taken: they are shut down, asked to leave, or killed. So
# many seconds a failed run waits for the word of the system that brought them. One that lost a machine may know that
# later than we do.
SYSTEM_LIMITS_S = {CauseClass.INTERRUPTED: 60.0, CauseClass.PREEMPTED: 60.0, CauseClass.NODE_LOST: 10.0}
WAIT = Verdict()
SETTLE = Verdict(settles=True)


def judge(case: Case) -> Verdict:
    """Return what follows. Repeating it with the same case after it was done changes nothing."""
    if case.wanted != Wanted.RUN:
        return _stopping(case) if case.wanted == Wanted.STOP else _pausing(case)
    if case.ending is not None and not all(_has_finished(case, part) for part in case.parts):
        return _without_machines(case, case.ending)
    fatal, borne = failures(case)
    if fatal:
        return _failing(case, fatal)
    if all(part.is_over for part in case.parts) or _is_done_without_the_rest(case):
        return _finishing(case, sorted(borne, key=lambda failure: failure.at))
    if stopped := [part.node for part in case.parts if part.is_stopped and not part.is_over]:
        return _stopped_supervisors(case, stopped)
    if silent := [part.node for part in case.parts if part.is_silent]:
        return _leaving_behind(case) if _can_do_without(case, silent) else _out_of_contact(case, silent)
    return _in_contact(case)


def _without_machines(case: Case, ending: AllocationEnding) -> Verdict:
    """The machines went while the attempt needed them. Who cancelled them by hand wants the run to end."""
    if ending.kind != EndKind.CANCELLED:
        own = [one for one in failures(case)[0] if one.code != code_of_ending(ending)]  # not of parts that vanished
        return _failing(case, [failure_of_ending(ending, own), *own])
    if not _is_settled(case, REST_LIMIT_S):
        return SETTLE
    return _stopped(Status.CANCELLED, code_of_ending(ending), ending.sentence, {"job": ending.job})


def _pausing(case: Case) -> Verdict:
    """The ranks are to end and go on later, or elsewhere. A run that fails, or that finishes, before they have ended
    does not."""
    if case.has_go:
        fatal = [failure for failure in failures(case)[0] if failure.code != UNASKED]
        # A rank may end with one that was asked to, before its own node has heard of it.
        asked = (CauseClass.KILLED, Standing.WAITED)
        if any((failure.cause_class, failure.standing) != asked for failure in fatal):
            return _failing(case, fatal)
        if all(_has_finished(case, part) for part in case.parts):
            return _finishing(case, ())
        if _can_do_without(case, [part.node for part in case.parts if part.is_silent]):
            return _leaving_behind(case)
    return _stopping(case)


def _can_do_without(case: Case, silent: Sequence[str]) -> bool:
    """Return whether the run is elastic and the nodes that are in contact are enough for it."""
    if not silent or case.least_nodes is None or not case.has_go:
        return False
    return len(case.parts) - len(silent) >= case.least_nodes


def _leaving_behind(case: Case) -> Verdict:
    """End the ranks on the nodes that are in contact, which cannot step without the others. Once they have ended, the
    attempt has failed for the silence, and the next one is placed without those nodes."""
    if fatal := failures(case)[0]:
        return _failing(case, fatal)
    return SETTLE if case.settling_s is None else WAIT


def _has_finished(case: Case, part: PlacementState) -> bool:
    """Return whether the ranks of the node ended by themselves, after their last step."""
    ranks = part.report.ranks
    is_asked = part.report.reason is not None and not case.zero_means_finished
    return part.phase == Phase.ENDED and not is_asked and len(ranks) == part.num_ranks and all(map(is_clean, ranks))


def _stopping(case: Case) -> Verdict:
    """``case.wanted`` says what the run becomes once nothing of the attempt is left."""
    end = ENDS[case.wanted]
    if not case.has_go:  # no rank exists before go, and none will: the fence is over
        return _stopped(end.outcome, end.code, end.before_go, {})
    if all(_has_finished(case, part) for part in case.parts):
        return _finishing(case, ())  # before the wish reached it
    if all(part.is_over for part in case.parts):
        return _stopped(end.outcome, *case.stopped()) if _is_settled(case, REST_LIMIT_S) else SETTLE
    if silent := [part.node for part in case.parts if part.is_silent]:
        return _out_of_contact(case, silent)
    if case.status == Status.LOST:
        return Verdict(Status.STOPPING, "contact-back", f"The nodes are in contact again; {end.word} as asked.")
    if case.status != end.during and case.status != Status.STOPPING:
        return Verdict(end.during, end.word, f"{end.word.capitalize()} as asked.")
    return WAIT


def _stopped(outcome: Status, code: str, sentence: str, evidence: JsonObject) -> Verdict:
    return Verdict(outcome, code, sentence, evidence, ends=True, cause=cause_of_stop(code, sentence, evidence))


def _failing(case: Case, fatal: Sequence[Failure]) -> Verdict:
    waited_s = case.settling_s or 0.0
    # A node that sees its supervisor stopped ends it, and says so: it is not to be blamed for silence meanwhile.
    is_open = any(not part.is_over and (part.is_stopped or not part.is_silent) for part in case.parts)
    others_over = not is_open or waited_s > STOP_LIMIT_S
    code, cause = cause_of(fatal, case.parts)
    if case.may_end and waited_s <= SYSTEM_LIMITS_S.get(cause.cause_class, 0.0):
        return SETTLE  # whoever shut the nodes down was their system: it says why once their job is over
    if case.settling_s is None or not others_over or not _is_settled(case, case.rest_limit_s(cause.cause_class)):
        return SETTLE
    if code == UNASKED and not case.has_go:
        sentence = "The start was called off on its nodes; looking for a place again."
        return Verdict(Status.QUEUED, "called-off", sentence, cause.evidence, ends=True, cause=cause)
    return Verdict(Status.FAILED, code, cause.sentence, cause.evidence, ends=True, cause=cause)


def _finishing(case: Case, borne: Sequence[Failure]) -> Verdict:
    """``borne`` are the ends of ranks that the run went on without: rank 0 ended with 0 and holds the weights."""
    if not case.is_complete() and (case.settling_s or 0.0) <= SUCCESS_REST_LIMIT_S:
        return SETTLE
    silent = [part.node for part in case.parts if not part.is_over]
    lost = [failure.sentence for failure in borne]
    lost += [f"The ranks on {listed(silent)} were out of contact at the end."] if silent else []
    if lost:
        sentence = f"Rank 0 finished, and with it the run, without all of its ranks. {' '.join(lost[:SENTENCES])}"
        return Verdict(Status.SUCCEEDED, "finished-without-ranks", sentence, {"lost": lost}, ends=True)
    if case.is_complete():
        return Verdict(Status.SUCCEEDED, "finished", "Every rank finished.", ends=True)
    sentence = f"Every rank finished, but some of what they wrote has not arrived after {SUCCESS_REST_LIMIT_S:g} s."
    return Verdict(Status.SUCCEEDED, INCOMPLETE, sentence, ends=True)


def _is_done_without_the_rest(case: Case) -> bool:
    """Rank 0 is over (and did not fail, for that was asked before), and of nobody else anything can be heard."""
    return case.outlives_workers and all(one.is_over or (one.first_rank != 0 and one.is_silent) for one in case.parts)


def _stopped_supervisors(case: Case, nodes: Sequence[str]) -> Verdict:
    """The nodes answer, and end these supervisors unless they soon go on: nobody is to be looked for elsewhere."""
    who = "The supervisor of this run on {} is" if len(nodes) == 1 else "The supervisors of this run on {} are"
    sentence = f"{who.format(listed(nodes))} stopped (SIGSTOP)."
    evidence: JsonObject = {"nodes": list(nodes)}
    code = "supervisor-stopped"
    if not case.has_go:
        cause = Cause(cause_class=CauseClass.PROCESS_LOST, sentence=sentence, evidence=evidence)
        sentence = f"{sentence} Nothing had started there; looking for another place."
        return Verdict(Status.QUEUED, code, sentence, evidence, ends=True, cause=cause)
    if case.status in (Status.STARTING, Status.RUNNING, Status.RESIZING):
        sentence = f"{sentence} Its ranks may still train, and nothing arrives of it."
        return Verdict(Status.RECOVERING, code, sentence, evidence, is_out_of_contact=True)
    return Verdict(is_out_of_contact=True)


def _out_of_contact(case: Case, silent: Sequence[str]) -> Verdict:
    cause, evidence = no_contact(silent), {"nodes": list(silent)}
    nodes = cause.sentence.rstrip(".")
    if not case.has_go:  # nothing has started, nothing can without go: the run may be placed elsewhere at once
        sentence = f"{nodes} before the start; looking for another place."
        return Verdict(Status.QUEUED, "contact-lost", sentence, evidence, ends=True, cause=cause)
    lost_s = case.out_of_contact_s
    limit_s = min(case.lease_s, LOST_AFTER_S)
    if case.status != Status.LOST and lost_s is not None and lost_s > limit_s:
        sentence = f"{nodes} for more than {limit_s:g} s. It goes on when contact returns; it can also be given up."
        # LOST follows RECOVERING and STOPPING only; both are where silence leads first.
        return Verdict(Status.LOST, "lost", sentence, evidence, is_out_of_contact=True)
    if case.status in (Status.STARTING, Status.RUNNING, Status.SCHEDULED, Status.RESIZING):
        sentence = f"{nodes}. Training may still go on there."
        return Verdict(Status.RECOVERING, "contact-lost", sentence, evidence, is_out_of_contact=True)
    return Verdict(is_out_of_contact=True)


def _in_contact(case: Case) -> Verdict:
    if not case.has_go:
        return Verdict(go=True) if all(part.phase == Phase.READY for part in case.parts) else WAIT
    trains = all(part.phase in (Phase.RUNNING, Phase.ENDED) for part in case.parts)
    was_away = case.status in (Status.RECOVERING, Status.LOST)
    if was_away and any(part.unheard_s > CONTACT_LOST_S and not part.is_over for part in case.parts):
        return Verdict(is_out_of_contact=True)  # control was away: that it has not listened for long is no contact
    code, words = ("contact-back", "In contact again") if was_away else ("running", "Training started")
    nodes = listed([part.node for part in case.parts if not part.is_over_lease])
    if lost := [part.node for part in case.parts if part.is_over_lease]:  # and the run outlives it
        code, words = "goes-on", f"Without {listed(lost)}, out of contact for too long, training goes on"
    if trains and case.status != Status.RUNNING:
        return Verdict(Status.RUNNING, code, f"{words} on {nodes}.")
    if was_away and not trains:
        return Verdict(Status.STARTING, code, f"{words} with {nodes}; starting.")
    return WAIT


def _is_settled(case: Case, limit_s: float) -> bool:
    return case.is_complete() or (case.settling_s or 0.0) > limit_s


def failures(case: Case) -> tuple[list[Failure], list[Failure]]:
    """Return the proofs of failure, and those that the run outlives. Ranks that the node itself stopped prove nothing.

    A run with its weights on rank 0 outlives its other ranks from when all are together. A node without rank 0 may
    be lost with all it has, but for one that refused: its ranks never came.
    """
    found = failures_of(case.parts)
    if not case.outlives_workers or not case.has_go:
        return found, []
    return [one for one in found if not one.is_spare], [one for one in found if one.is_spare]
