"""The proofs that an attempt failed: one for each rank that failed, or for a node whose ranks all ended together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from runs.causes.placements import PlacementState
from runs.values.status import Phase
from trainyard.contract.base import BadDocument, JsonObject, convert, to_builtins
from trainyard.contract.causes import CauseClass
from trainyard.contract.reports import AttemptReport, RankEvidence, RankReport, Reason, RuleMatch
from trainyard.failures.log_rules import hardware_lines, last_words
from trainyard.failures.ranks import ending_class, explain_rank, is_clean
from trainyard.failures.signs import Standing
from trainyard.spec.values.durations import words_of

UNASKED = "stopped-unasked"
LEASE_OVER = "lease-over"


@dataclass(frozen=True)
class Failure:
    """A proof of a failure. ``at`` is by the clock of its node, in Unix seconds."""

    at: float
    code: str
    cause_class: CauseClass
    sentence: str
    node: str
    evidence: JsonObject
    rank: int | None = None
    is_spare: bool = False  # of a rank that others need not wait for, or of a node that has only such ranks
    standing: Standing = Standing.OWN


def failures_of(parts: Sequence[PlacementState]) -> list[Failure]:
    return [failure for part in parts if part.is_over for failure in _failures_on(part)]


def _failures_on(part: PlacementState) -> Iterator[Failure]:
    lost = _loss_of_all(part)
    if lost is not None:
        yield lost
        return
    logged = _logged(part.report)
    for rank in part.report.ranks:
        if not is_clean(rank):
            yield _rank_failure(part.node, rank, logged, part.report.matches)


def _logged(report: AttemptReport) -> RankEvidence:
    """Return the node's own evidence, with the last lines of the rank that it saw fail first."""
    try:
        return convert((report.reason and report.reason.evidence) or {}, RankEvidence)
    except BadDocument:  # of a code that has other fields
        return RankEvidence()


def _loss_of_all(part: PlacementState) -> Failure | None:
    """Return what befell the node's ranks together, None where each has an end of its own."""
    node, reason = part.node, part.report.reason or Reason()
    code = reason.code.replace("_", "-")
    if part.is_missing:
        sentence = f"Node {node} answers, but the processes of this run are gone from it."
        return _loss(part, "processes-missing", CauseClass.PROCESS_LOST, sentence)
    if part.is_over_lease:
        sentence = f"Node {node} has been out of contact for more than {words_of(part.lease_s)}: it counts as lost."
        lost = _loss(part, LEASE_OVER, CauseClass.NODE_LOST, sentence)
        return replace(lost, evidence={**lost.evidence, "silent": [node]})
    if code == "stopped":  # by us, since something else failed: that is the reason, unless it turns out to be nothing
        sentence = f"Node {node} stopped its ranks, and nobody had asked for it."
        return replace(_loss(part, UNASKED, CauseClass.UNKNOWN, sentence), at=float("inf"), standing=Standing.ENDED)
    if part.phase == Phase.REFUSED:
        sentence = reason.sentence or f"Node {node} refused the run."
        known = ending_class(code)  # of a refusal that another node, or a repair, would change
        cause_class = CauseClass.REFUSED if known == CauseClass.UNKNOWN else known
        return _loss(part, "node-refused", cause_class, sentence, reason)
    if code and not code.startswith("rank-"):
        sentence = reason.sentence or f"Node {node} gave up: {code}."
        return _loss(part, code, ending_class(code), sentence, reason)
    ranks = part.report.ranks
    if all(map(is_clean, ranks)) and len(ranks) != part.num_ranks:
        sentence = f"Node {node} reported the end of {len(ranks)} of its {part.num_ranks} ranks."
        return _loss(part, "ranks-missing", CauseClass.PROCESS_LOST, sentence)
    return None


def _loss(
    part: PlacementState, code: str, cause_class: CauseClass, sentence: str, reason: Reason | None = None
) -> Failure:
    at = (reason and reason.at) or part.report.at
    evidence = {"node": part.node, **((reason and reason.evidence) or {})}  # of a hang: with the node that hangs
    is_spare = part.first_rank != 0 and part.phase != Phase.REFUSED
    rank = evidence.get("rank")  # of a hang: the one that did not come
    culprit = rank if isinstance(rank, int) else None
    return Failure(at, code, cause_class, sentence, str(evidence["node"]), evidence, rank=culprit, is_spare=is_spare)


def _rank_failure(node: str, rank: RankReport, logged: RankEvidence, matches: Sequence[RuleMatch]) -> Failure:
    is_logged = logged.rank == rank.rank
    stderr = logged.stderr if is_logged else []
    evidence: JsonObject = {
        "rank": rank.rank,
        "node": node,
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "traceback": rank.error.traceback if rank.error else None,
        "log": stderr,
        "output": logged.stdout if is_logged else [],
    }
    if rank.oom_killed:
        evidence["oom_killed"] = True
    if rules := [one for one in matches if one.rank == rank.rank]:
        evidence["rules"] = to_builtins(rules)
        stderr = [*(hardware_lines(rules) if rank.error or stderr else last_words(rules)), *stderr]
    if logged.disk_full:
        evidence["disk"] = f"The disk of {node} was full."
    cause_class, sentence, standing = explain_rank(rank, node, stderr=stderr, is_disk_full=logged.disk_full)
    return Failure(
        at=rank.ended_at or float("inf"),
        code="rank-killed" if rank.signal else "rank-failed",
        cause_class=cause_class,
        sentence=sentence,
        node=node,
        evidence=evidence,
        rank=rank.rank,
        is_spare=rank.rank != 0 and rank.has_joined,
        standing=standing,
    )
