"""The cause of an attempt's end among its failures, and the causes of ends that are no failure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runs.causes.failures import UNASKED, Failure
from runs.causes.placements import PlacementState
from trainyard.contract.base import JsonObject
from trainyard.contract.causes import Cause, CauseClass, Consequence
from trainyard.failures.ranks import is_clean
from trainyard.failures.signs import Standing
from trainyard.formats.words import listed

MAX_CONSEQUENCES = 32
STOPS = {
    "stopped": CauseClass.STOPPED,
    "time-limit": CauseClass.TIME_LIMIT,
    "preempted": CauseClass.PREEMPTED,
    "resized": CauseClass.RESIZED,
}
# Nobody knows more of these than when the last step was: the end of their ranks is ours.
STOOD_STILL = (
    CauseClass.HANG,
    CauseClass.NETWORK,
    CauseClass.COLLECTIVE_TIMEOUT,
    CauseClass.NODE_LOST,
    CauseClass.PROCESS_LOST,
)


def cause_of(failures: Sequence[Failure], parts: Sequence[PlacementState]) -> tuple[str, Cause]:
    """Return code and cause of a failed attempt: what ended first, with what others felt of it as consequences.

    ``failures`` are those that count, at least one. A node that is out of contact is the cause where ranks elsewhere
    only lost their connection to others.
    """
    main, *others = _ordered(failures, parts)
    if main.cause_class == CauseClass.COLLECTIVE_TIMEOUT and (missing := _ended_at_work(parts)):
        main = replace(main, sentence=f"{main.sentence} It was {missing} that had not come.")
    consequences = [_consequence(one) for one in others if one.sentence != main.sentence]
    cause = Cause(
        cause_class=main.cause_class,
        sentence=main.sentence,
        node=main.node,
        rank=main.rank,
        evidence=main.evidence,
        consequences=consequences[:MAX_CONSEQUENCES],
    )
    return main.code, cause


def _ended_at_work(parts: Sequence[PlacementState]) -> str:
    """Return the one rank that had no failure of its own and was ended; empty where there are more, some of which may
    have waited, too."""
    found = [
        f"rank {rank.rank} on {part.node}"
        for part in parts
        for rank in part.report.ranks
        if rank.error is None and (rank.was_ended or (rank.signal and _was_asked(part)))
    ]
    return found[0] if len(found) == 1 else ""


def _was_asked(part: PlacementState) -> bool:
    return part.report.reason is not None and part.report.reason.code == "stopped"


def _consequence(failure: Failure) -> Consequence:
    if failure.code == UNASKED:  # the server did, since something else had failed
        return Consequence(f"Node {failure.node} was asked to stop its ranks.", failure.node)
    return Consequence(failure.sentence, failure.node, failure.rank)


def cause_of_stop(code: str, sentence: str, evidence: JsonObject) -> Cause:
    """Return the cause of ranks that ended since a person, or the time limit, asked them to."""
    return Cause(cause_class=STOPS.get(code, CauseClass.STOPPED), sentence=sentence, evidence=evidence)


def no_contact(nodes: Sequence[str]) -> Cause:
    who = f"Node {nodes[0]} is" if len(nodes) == 1 else f"Nodes {listed(nodes)} are"
    return Cause(
        cause_class=CauseClass.NODE_LOST,
        sentence=f"{who} out of contact.",
        node=nodes[0] if len(nodes) == 1 else "",
        evidence={"silent": list(nodes)},
    )


def _ordered(failures: Sequence[Failure], parts: Sequence[PlacementState]) -> list[Failure]:
    """Return the failures, and what can be read from the others' silence and ends, with the cause first."""
    found = sorted(failures, key=_order)
    if found[0].standing == Standing.OWN:
        return found
    return sorted([*found, *_silence(parts, found[0]), *_early_ends(parts, found[0].at)], key=_order)


def _silence(parts: Sequence[PlacementState], nearest: Failure) -> Iterator[Failure]:
    """Yield one for the nodes that are out of contact, with the lines and the traceback of the nearest failure."""
    silent = [part.node for part in parts if part.is_silent and not part.is_stopped]
    if silent:
        cause = no_contact(silent)
        evidence = {**nearest.evidence, **cause.evidence}
        at, standing = float("inf"), Standing.SILENT
        yield Failure(at, "contact-lost", cause.cause_class, cause.sentence, cause.node, evidence, standing=standing)


def _early_ends(parts: Sequence[PlacementState], before: float) -> Iterator[Failure]:
    """Yield one for each rank that ended with 0 before others lost it."""
    for part in parts:
        reason = part.report.reason
        is_own = reason is None or reason.code.startswith("rank")  # nobody had asked the node to end them
        for rank in part.report.ranks if part.is_over and is_own else ():
            if is_clean(rank) and rank.ended_at is not None and rank.ended_at < before:
                sentence = f"Rank {rank.rank} on {part.node} ended with exit code 0 while others still needed it."
                evidence: JsonObject = {"node": part.node, "rank": rank.rank, "exit_code": 0}
                yield Failure(
                    rank.ended_at, "rank-failed", CauseClass.USER_ERROR, sentence, part.node, evidence, rank=rank.rank
                )


def _order(failure: Failure) -> tuple[int, float]:
    """A node that finds a dead supervisor notices it later than ranks notice that their connections broke: what a
    rank only felt comes behind whatever may have been its cause."""
    return failure.standing, failure.at
