"""What follows for a run from what its nodes say: a pure function. Failing needs proof, and silence is never proof."""

from __future__ import annotations

import signal as signals
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runs.status import OVER, Phase, Status, Wanted
from trainyard.contract.base import BadDocument, convert, to_builtins
from trainyard.contract.limits import CONTACT_LOST_S
from trainyard.contract.reports import AttemptReport, RankError, RankEvidence, RankReport, Reason
from trainyard.formats.words import listed
from trainyard.lost_peers import is_of_lost_peer, lost_peer_sentence

MISSING_S = 3.0  # a node that answers may need this long to list what it has just begun, or to report what ended
STOP_LIMIT_S = 20.0  # a failed run does not wait longer than this for its other nodes to stop
REST_LIMIT_S = 5.0  # …and for the rest of its points and logs
SUCCESS_REST_LIMIT_S = 60.0
SENTENCES = 3  # about ranks that a run went on without; all of them are in the evidence
UNASKED = "stopped-unasked"
INCOMPLETE = "telemetry-incomplete"
DATA_PROBLEM = "DataProblem"  # see workers.training.data.problems


@dataclass(frozen=True)
class PlacementState:
    """One node's part of the attempt. ``silent_s`` is about its reports, ``is_answering`` about its node worker."""

    node: str
    phase: Phase
    report: AttemptReport
    silent_s: float
    is_answering: bool
    is_listed: bool
    num_ranks: int = 1
    first_rank: int = 0

    @property
    def is_missing(self) -> bool:
        """The node answers and has nothing of what it once reported."""
        begun = self.phase not in (Phase.PREPARING, *OVER)
        return begun and self.is_answering and not self.is_listed and self.silent_s > MISSING_S

    @property
    def is_over(self) -> bool:
        return self.phase in OVER or self.is_missing

    @property
    def is_silent(self) -> bool:
        """Out of contact. Before the first report the node worker's own word is enough."""
        if self.is_over or (self.phase == Phase.PREPARING and self.is_answering):
            return False
        return self.silent_s > CONTACT_LOST_S


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
    stopped: Callable[[], tuple[str, str, dict[str, Any]]] = lambda: ("stopped", "Stopped as asked.", {})  # its words
    outlives_workers: bool = False  # whether the run goes on as long as rank 0 does
    # Whether exit code 0 proves that the training is over: a rank of a recipe that stops early ends by SIGTERM. A
    # script may end with 0 because it was asked to.
    zero_means_finished: bool = False
    rest_limit_s: Callable[[Failure], float] = lambda _: REST_LIMIT_S  # for what is on the way after this failure


@dataclass(frozen=True)
class Verdict:
    """What to do. ``status`` None leaves the status; ``ends`` ends the attempt; ``settles`` starts the wait for what
    is still on the way (and stops what still trains)."""

    status: Status | None = None
    code: str = ""
    sentence: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    ends: bool = False
    settles: bool = False
    go: bool = False
    is_out_of_contact: bool = False


WAIT = Verdict()
SETTLE = Verdict(settles=True)


def judge(case: Case) -> Verdict:
    """Return what follows. Repeating it with the same case after it was done changes nothing."""
    if case.wanted != Wanted.RUN:
        return _pausing(case) if case.wanted == Wanted.PAUSE else _stopping(case)
    fatal, borne = failures(case)
    if fatal:
        return _failing(case, min(fatal, key=_order))
    if all(part.is_over for part in case.parts) or _is_done_without_the_rest(case):
        return _finishing(case, sorted(borne, key=_ended_at))
    silent = [part.node for part in case.parts if part.is_silent]
    if silent:
        return _out_of_contact(case, silent)
    return _in_contact(case)


def _pausing(case: Case) -> Verdict:
    """A run that fails, or that finishes, before its ranks have stopped is not paused."""
    if case.has_go:
        fatal = [failure for failure in failures(case)[0] if failure.code != UNASKED]
        if fatal:
            return _failing(case, min(fatal, key=_order))
        if all(_has_finished(case, part) for part in case.parts):
            return _finishing(case, ())
    return _stopping(case)


def _has_finished(case: Case, part: PlacementState) -> bool:
    """Whether the ranks of the node ended by themselves, after their last step."""
    ranks = part.report.ranks
    is_asked = part.report.reason is not None and not case.zero_means_finished
    return part.phase == Phase.ENDED and not is_asked and len(ranks) == part.num_ranks and all(map(_is_clean, ranks))


def _stopping(case: Case) -> Verdict:
    """``case.wanted`` says what the run becomes once nothing of the attempt is left: CANCELLED or PAUSED."""
    is_pause = case.wanted == Wanted.PAUSE
    outcome, word = (Status.PAUSED, "Pausing") if is_pause else (Status.CANCELLED, "Stopping")
    if not case.has_go:  # no rank exists before go, and none will: the fence is over
        if is_pause:
            return Verdict(outcome, "paused", "Paused as asked, before a rank had started.", ends=True)
        return Verdict(outcome, "stopped", "Stopped as asked.", ends=True)
    if all(part.is_over for part in case.parts):
        if not _is_settled(case, REST_LIMIT_S):
            return SETTLE
        code, sentence, evidence = case.stopped()
        return Verdict(outcome, code, sentence, evidence, ends=True)
    silent = [part.node for part in case.parts if part.is_silent]
    if silent:
        return _out_of_contact(case, silent)
    if case.status != Status.STOPPING and case.status != Status.LOST:
        return Verdict(Status.STOPPING, word.lower(), f"{word} as asked.")
    if case.status == Status.LOST:
        return Verdict(Status.STOPPING, "contact-back", f"The nodes are in contact again; {word.lower()} as asked.")
    return WAIT


def _failing(case: Case, failure: Failure) -> Verdict:
    waited_s = case.settling_s or 0.0
    others_over = all(part.is_over or part.is_silent for part in case.parts) or waited_s > STOP_LIMIT_S
    if case.settling_s is None or not others_over or not _is_settled(case, case.rest_limit_s(failure)):
        return SETTLE
    if failure.is_felt and (silent := [part.node for part in case.parts if part.is_silent]):
        verb = "is" if len(silent) == 1 else "are"
        sentence = f"{listed(silent)} {verb} out of contact. {failure.sentence}"
        return Verdict(Status.FAILED, "contact-lost", sentence, {**failure.evidence, "silent": silent}, ends=True)
    if failure.code == UNASKED and not case.has_go:
        sentence = "The start was called off on its nodes; looking for a place again."
        return Verdict(Status.QUEUED, "called-off", sentence, failure.evidence, ends=True)
    return Verdict(Status.FAILED, failure.code, failure.sentence, failure.evidence, ends=True)


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
    return case.outlives_workers and all(
        part.is_over or (part.first_rank != 0 and part.is_silent) for part in case.parts
    )


def _out_of_contact(case: Case, silent: Sequence[str]) -> Verdict:
    names = listed(silent)
    nodes = f"{'Node' if len(silent) == 1 else 'Nodes'} {names} {'is' if len(silent) == 1 else 'are'}"
    evidence = {"nodes": list(silent)}
    if not case.has_go:  # nothing has started, nothing can without go: the run may be placed elsewhere at once
        sentence = f"{nodes} out of contact before the start; looking for another place."
        return Verdict(Status.QUEUED, "contact-lost", sentence, evidence, ends=True)
    lost_s = case.out_of_contact_s
    if case.status != Status.LOST and lost_s is not None and lost_s > case.lease_s:
        sentence = (
            f"{nodes} out of contact for more than {case.lease_s:g} s. "
            "It goes on when contact returns; it can also be given up."
        )
        # LOST follows RECOVERING and STOPPING only; both are where silence leads first.
        return Verdict(Status.LOST, "lost", sentence, evidence, is_out_of_contact=True)
    if case.status in (Status.STARTING, Status.RUNNING, Status.SCHEDULED):
        sentence = f"{nodes} out of contact. Training may still go on there."
        return Verdict(Status.RECOVERING, "contact-lost", sentence, evidence, is_out_of_contact=True)
    return Verdict(is_out_of_contact=True)


def _in_contact(case: Case) -> Verdict:
    if not case.has_go:
        return Verdict(go=True) if all(part.phase == Phase.READY for part in case.parts) else WAIT
    trains = all(part.phase in (Phase.RUNNING, Phase.ENDED) for part in case.parts)
    was_away = case.status in (Status.RECOVERING, Status.LOST)
    code, words = ("contact-back", "In contact again") if was_away else ("running", "Training started")
    nodes = listed([part.node for part in case.parts])
    if trains and case.status != Status.RUNNING:
        return Verdict(Status.RUNNING, code, f"{words} on {nodes}.")
    if was_away and not trains:
        return Verdict(Status.STARTING, code, f"{words} with {nodes}; starting.")
    return WAIT


def _is_settled(case: Case, limit_s: float) -> bool:
    return case.is_complete() or (case.settling_s or 0.0) > limit_s


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed: what ended first, by the nodes' clocks. ``is_felt``: another's end made it fail."""

    at: float
    code: str
    sentence: str
    evidence: dict[str, Any]
    is_spare: bool = False  # of a rank that others need not wait for, or of a node that has only such ranks
    is_felt: bool = False


def _ended_at(failure: Failure) -> float:
    return failure.at


def _order(failure: Failure) -> tuple[bool, float]:
    """What a rank felt of another's end comes behind whatever may have been that end: a node that buries a dead
    supervisor notices it later than ranks notice that their connections broke."""
    return failure.is_felt, failure.at


def failures(case: Case) -> tuple[list[Failure], list[Failure]]:
    """Return the proofs of failure, and those that the run outlives. Ranks that the node itself stopped prove nothing.

    A run with its weights on rank 0 outlives its other ranks from when all are together. A node without rank 0 may
    be lost with all it has, but for one that refused: its ranks never came.
    """
    found = [failure for part in case.parts if part.is_over for failure in _failures(part)]
    if not case.outlives_workers or not case.has_go:
        return found, []
    return [one for one in found if not one.is_spare], [one for one in found if one.is_spare]


def _failures(part: PlacementState) -> list[Failure]:
    lost = _loss_of_all(part)
    if lost is not None:
        return [replace(lost, is_spare=part.first_rank != 0 and part.phase != Phase.REFUSED)]
    logged = _logged(part.report)
    return [_rank_failure(part.node, rank, logged) for rank in part.report.ranks if not _is_clean(rank)]


def _logged(report: AttemptReport) -> RankEvidence:
    """Return the node's own evidence, with the last lines of the rank that it saw fail first."""
    try:
        return convert((report.reason and report.reason.evidence) or {}, RankEvidence)
    except BadDocument:  # of a code that has other fields
        return RankEvidence()


def _loss_of_all(part: PlacementState) -> Failure | None:
    """Return what befell the node's ranks together, None where each has an end of its own."""
    ended_at = part.report.at
    if part.is_missing:
        sentence = f"Node {part.node} answers, but the processes of this run are gone from it."
        return Failure(ended_at, "processes-missing", sentence, {"node": part.node})
    reason = part.report.reason or Reason()
    code = reason.code.replace("_", "-")
    if code == "stopped":  # by us, since something else failed: that is the reason, unless it turns out to be nothing
        sentence = f"Node {part.node} stopped its ranks, and nobody had asked for it."
        return Failure(float("inf"), UNASKED, sentence, {"node": part.node})
    if code and not code.startswith("rank-"):
        evidence = {"node": part.node, **(reason.evidence or {})}
        code = "node-refused" if part.phase == Phase.REFUSED else code
        sentence = reason.sentence or f"Node {part.node} gave up: {code}."
        return Failure(reason.at or ended_at, code, sentence, evidence)
    if part.phase == Phase.REFUSED:
        return Failure(ended_at, "node-refused", f"Node {part.node} refused the run.", {"node": part.node})
    ranks = part.report.ranks
    if all(map(_is_clean, ranks)) and len(ranks) != part.num_ranks:
        sentence = f"Node {part.node} reported the end of {len(ranks)} of its {part.num_ranks} ranks."
        return Failure(ended_at, "ranks-missing", sentence, {"node": part.node})
    return None


def _is_clean(rank: RankReport) -> bool:
    """Success needs proof: an exit code of 0, not the lack of another."""
    return rank.exit_code == 0 and not rank.signal and rank.error is None


def _rank_failure(node: str, rank: RankReport, logged: RankEvidence) -> Failure:
    is_logged = logged.rank == rank.rank
    evidence = {
        "rank": rank.rank,
        "node": node,
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "traceback": rank.error.traceback if rank.error else None,
        "log": logged.stderr if is_logged else [],
        "output": logged.stdout if is_logged else [],
    }
    at = rank.ended_at or float("inf")
    if logged.disk_full:
        evidence["disk"] = f"The disk of {node} was full."
    who = f"Rank {rank.rank} on {node}{', whose disk was full,' if logged.disk_full else ''}"
    is_spare = rank.rank != 0 and rank.has_joined
    if rank.signal:
        # Its node killed it, since another rank had failed before.
        sentence = f"{who} was killed by {signal_name(rank.signal)}."
        return Failure(at, "rank-killed", sentence, evidence, is_spare, is_felt=rank.was_ended)
    if rank.error is None:
        return Failure(at, "rank-failed", f"{who} ended with exit code {rank.exit_code}.", evidence, is_spare)
    error = to_builtins(rank.error)
    if is_of_lost_peer(error):
        return Failure(at, "rank-failed", lost_peer_sentence(who, error), evidence, is_spare, is_felt=True)
    return Failure(at, "rank-failed", _sentence_of_error(who, rank.error), evidence, is_spare)


def _sentence_of_error(who: str, error: RankError) -> str:
    message = (error.message or "").strip().splitlines()
    if error.type == DATA_PROBLEM and message:  # a sentence for people already, whose end says what to do
        return f"{who} cannot use its data: {message[0][:1_000]}"
    return f"{who} failed with {error.type}: {message[0][:300]}" if message else f"{who} failed with {error.type}"


def signal_name(number: int) -> str:
    try:
        return f"{signals.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"
