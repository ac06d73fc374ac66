"""What follows for a run from what its nodes say: a pure function. Failing needs proof, and silence is never proof."""

from __future__ import annotations

import signal as signals
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.status import Phase, Status, Wanted
from workers.contract import CONTACT_LOST_S, Document

MISSING_S = 3.0  # a node that answers may need this long to list what it has just begun, or to report what ended
STOP_LIMIT_S = 20.0  # a failed run does not wait longer than this for its other nodes to stop
REST_LIMIT_S = 5.0  # …and for the rest of its points and logs
SUCCESS_REST_LIMIT_S = 60.0
OVER = (Phase.ENDED, Phase.REFUSED)
UNASKED = "stopped-unasked"


@dataclass(frozen=True)
class Part:
    """One node's part of the attempt. ``silent_s`` is about its reports, ``is_answering`` about its node worker."""

    node: str
    phase: Phase
    report: Document
    silent_s: float
    is_answering: bool
    is_listed: bool
    num_ranks: int = 1

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
    parts: Sequence[Part]
    lease_s: float
    out_of_contact_s: float | None
    settling_s: float | None
    is_complete: Callable[[], bool]  # whether every record that the ranks wrote has arrived


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
    if case.wanted == Wanted.STOP:
        return _stopping(case)
    if failure := first_failure(case.parts):
        return _failing(case, failure)
    if all(part.is_over for part in case.parts):
        return _finishing(case)
    silent = [part.node for part in case.parts if part.is_silent]
    if silent:
        return _out_of_contact(case, silent)
    return _in_contact(case)


def _stopping(case: Case) -> Verdict:
    stopped = Verdict(Status.CANCELLED, "stopped", "Stopped as asked.", ends=True)
    if not case.has_go:
        return stopped  # no rank exists before go, and none will: the fence is over
    if all(part.is_over for part in case.parts):
        return stopped if _is_settled(case, REST_LIMIT_S) else SETTLE
    silent = [part.node for part in case.parts if part.is_silent]
    if silent:
        return _out_of_contact(case, silent)
    if case.status != Status.STOPPING and case.status != Status.LOST:
        return Verdict(Status.STOPPING, "stopping", "Stopping as asked.")
    if case.status == Status.LOST:
        return Verdict(Status.STOPPING, "contact-back", "The nodes are in contact again; stopping as asked.")
    return WAIT


def _failing(case: Case, failure: Failure) -> Verdict:
    waited_s = case.settling_s or 0.0
    others_over = all(part.is_over or part.is_silent for part in case.parts) or waited_s > STOP_LIMIT_S
    if case.settling_s is None or not others_over or not _is_settled(case, REST_LIMIT_S):
        return SETTLE
    if failure.code == UNASKED and not case.has_go:
        sentence = "The start was called off on its nodes; looking for a place again."
        return Verdict(Status.QUEUED, "called-off", sentence, failure.evidence, ends=True)
    return Verdict(Status.FAILED, failure.code, failure.sentence, failure.evidence, ends=True)


def _finishing(case: Case) -> Verdict:
    if case.is_complete():
        return Verdict(Status.SUCCEEDED, "finished", "Every rank finished.", ends=True)
    if (case.settling_s or 0.0) <= SUCCESS_REST_LIMIT_S:
        return SETTLE
    sentence = f"Every rank finished, but some of what they wrote has not arrived after {SUCCESS_REST_LIMIT_S:g} s."
    return Verdict(Status.SUCCEEDED, "telemetry-incomplete", sentence, ends=True)


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
    """Why an attempt failed: what ended first, by the nodes' clocks."""

    at: float
    code: str
    sentence: str
    evidence: dict[str, Any]


def first_failure(parts: Sequence[Part]) -> Failure | None:
    """Return the earliest proof of failure. Ranks that the node itself stopped prove nothing."""
    failures = [failure for part in parts if part.is_over for failure in _failures(part)]
    return min(failures, key=lambda failure: failure.at, default=None)


def _failures(part: Part) -> list[Failure]:
    ended_at = float(part.report.get("at") or 0.0)
    if part.is_missing:
        sentence = f"Node {part.node} answers, but the processes of this run are gone from it."
        return [Failure(ended_at, "processes-missing", sentence, {"node": part.node})]
    reason = part.report.get("reason") or {}
    code = str(reason.get("code") or "").replace("_", "-")
    if code == "stopped":  # by us, since something else failed: that is the reason, unless it turns out to be nothing
        sentence = f"Node {part.node} stopped its ranks, and nobody had asked for it."
        return [Failure(float("inf"), UNASKED, sentence, {"node": part.node})]
    if code and not code.startswith("rank-"):
        evidence = {"node": part.node, **(reason.get("evidence") or {})}
        code = "node-refused" if part.phase == Phase.REFUSED else code
        return [Failure(ended_at, code, str(reason.get("sentence") or f"Node {part.node} gave up: {code}."), evidence)]
    if part.phase == Phase.REFUSED:
        return [Failure(ended_at, "node-refused", f"Node {part.node} refused the run.", {"node": part.node})]
    logged, ranks = reason.get("evidence") or {}, part.report.get("ranks") or []
    failed = [_rank_failure(part.node, rank, logged) for rank in ranks if not _is_clean(rank)]
    if not failed and len(ranks) != part.num_ranks:
        sentence = f"Node {part.node} reported the end of {len(ranks)} of its {part.num_ranks} ranks."
        return [Failure(ended_at, "ranks-missing", sentence, {"node": part.node})]
    return failed


def _is_clean(rank: Document) -> bool:
    """Success needs proof: an exit code of 0, not the lack of another."""
    return rank.get("exit_code") == 0 and not rank.get("signal") and not rank.get("error")


def _rank_failure(node: str, rank: Document, logged: Document) -> Failure:
    """``logged`` is the node's own evidence, with the last lines of the rank that it saw fail first."""
    number, error, signal = rank.get("rank"), rank.get("error") or {}, rank.get("signal")
    evidence = {
        "rank": number,
        "node": node,
        "exit_code": rank.get("exit_code"),
        "signal": signal,
        "traceback": error.get("traceback"),
        "log": logged.get("stderr", []) if logged.get("rank") == number else [],
    }
    at = float(rank.get("ended_at") or float("inf"))
    who = f"Rank {number} on {node}"
    if signal:
        return Failure(at, "rank-killed", f"{who} was killed by {signal_name(signal)}.", evidence)
    if error:
        message = str(error.get("message") or "").strip().splitlines()
        words = f"{error.get('type')}: {message[0][:300]}" if message else str(error.get("type"))
        return Failure(at, "rank-failed", f"{who} failed with {words}", evidence)
    return Failure(at, "rank-failed", f"{who} ended with exit code {rank.get('exit_code')}.", evidence)


def signal_name(number: int) -> str:
    try:
        return f"{signals.Signals(number).name} ({number})"
    except ValueError:
        return f"signal {number}"


def listed(names: Sequence[str]) -> str:
    """Return the names as a person would list them."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
