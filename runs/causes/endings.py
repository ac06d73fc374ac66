"""The cause of an attempt's end among its failures, and the causes of ends that are no failure."""

from __future__ import annotations

from collections.abc import Sequence

from runs.causes.failures import UNASKED, Failure
from runs.causes.placements import PlacementState
from trainyard.contract.base import JsonObject
from trainyard.contract.causes import Cause, CauseClass, Consequence
from trainyard.failures.signs import Standing
from trainyard.formats.words import listed

MAX_CONSEQUENCES = 32
STOPS = {"stopped": CauseClass.STOPPED, "time-limit": CauseClass.TIME_LIMIT, "preempted": CauseClass.PREEMPTED}


def cause_of(failures: Sequence[Failure], parts: Sequence[PlacementState]) -> Cause:
    """Return why the attempt failed: what ended first, with what others felt of it as consequences.

    ``failures`` are those that count, at least one. A node that is out of contact is the cause where ranks elsewhere
    only lost their connection to others.
    """
    main, *others = _ordered(failures, parts)
    felt = [one for one in others if one.code != UNASKED and one.sentence != main.sentence]
    consequences = [Consequence(one.sentence, one.node, one.rank) for one in felt]
    return Cause(
        cause_class=main.cause_class,
        sentence=main.sentence,
        node=main.node,
        rank=main.rank,
        evidence=main.evidence,
        consequences=consequences[:MAX_CONSEQUENCES],
    )


def code_of(failures: Sequence[Failure], parts: Sequence[PlacementState]) -> str:
    """Return the reason code of the same failure."""
    return _ordered(failures, parts)[0].code


def cause_of_stop(code: str, sentence: str, evidence: JsonObject) -> Cause:
    """Return the cause of ranks that ended since a person, or the time limit, asked them to."""
    return Cause(cause_class=STOPS.get(code, CauseClass.STOPPED), sentence=sentence, evidence=evidence)


def no_contact(nodes: Sequence[str]) -> Cause:
    sentence = f"{'Node' if len(nodes) == 1 else 'Nodes'} {listed(nodes)} {'is' if len(nodes) == 1 else 'are'}"
    return Cause(
        cause_class=CauseClass.NODE_LOST,
        sentence=f"{sentence} out of contact.",
        node=nodes[0] if len(nodes) == 1 else "",
        evidence={"silent": list(nodes)},
    )


def plain_cause(cause_class: CauseClass, sentence: str, **evidence: object) -> Cause:
    return Cause(cause_class=cause_class, sentence=sentence, evidence=evidence)


def _ordered(failures: Sequence[Failure], parts: Sequence[PlacementState]) -> list[Failure]:
    """Return the failures, and the silence of nodes, with the cause first."""
    found = sorted(failures, key=_order)
    silent = [part.node for part in parts if part.is_silent]
    if not silent:
        return found
    cause = no_contact(silent)
    evidence = {**found[0].evidence, **cause.evidence}  # with the lines and the traceback of the nearest failure
    silence = Failure(
        at=float("inf"),
        code="contact-lost",
        cause_class=cause.cause_class,
        sentence=cause.sentence,
        node=cause.node,
        evidence=evidence,
        standing=Standing.SILENT,
    )
    return sorted([*found, silence], key=_order)


def _order(failure: Failure) -> tuple[int, float]:
    """A node that finds a dead supervisor notices it later than ranks notice that their connections broke: what a
    rank only felt comes behind whatever may have been its cause."""
    return failure.standing, failure.at
