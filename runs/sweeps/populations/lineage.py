"""The tree of a population: who goes on from whom, and the line of one trial as the spec of a single run."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from msgspec import Meta

from trainyard.contract.base import JsonObject
from trainyard.formats.words import listed
from trainyard.grouping import grouped
from trainyard.spec.document import merge
from trainyard.spec.sections.changes import changes_of_line
from trainyard.spec.sweeps.overlay import overlay
from trainyard.spec.sweeps.population import CHANGEABLE_PATHS


@dataclass(frozen=True, slots=True)
class Member:
    """A trial of the population. ``scores`` are by the step of a boundary, and greater is better."""

    number: int
    parameters: Mapping[str, Any]
    scores: Mapping[int, float] = field(default_factory=dict)
    checkpoints: frozenset[int] = frozenset()  # steps that another one can go on from
    start: int = 0  # the step behind which it began
    judged: int = 0  # the last boundary at which it was judged
    is_training: bool = True
    has_failed: bool = False  # and nobody has taken its place yet


@dataclass(frozen=True, slots=True)
class Successor:
    """The trial that takes the place of another one. ``parent`` None: it starts anew."""

    parent: int | None
    parent_step: int | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MemberVerdict:
    """Decision about trial ``number``, judged at ``step``: it goes on, or its successor takes its place."""

    number: int
    step: int
    successor: Successor | None = None


def boundary_scores(
    reports: Iterable[tuple[int, float]], *, interval: int, start: int, sign: int, reached: int
) -> dict[int, float]:
    """Return the score at each boundary: of the last report since the one before. ``sign`` is 1 where a smaller value
    is better. A boundary counts once the trial has reached it, which may be known from other series."""
    last: dict[int, tuple[int, float]] = {}
    for step, value in reports:
        if step <= start:
            continue
        reached = max(reached, step)
        boundary = -(-step // interval) * interval
        if boundary not in last or step >= last[boundary][0]:
            last[boundary] = (step, value)
    return {
        boundary: -sign * value if math.isfinite(value) else -math.inf
        for boundary, (_, value) in sorted(last.items())
        if boundary <= reached
    }


@dataclass(frozen=True, slots=True)
class Branch:
    """A trial in the tree: it trained the steps behind ``start`` up to ``end``. ``changed`` are the parameters that it
    has another way than its parent, with the parent's value and its own."""

    number: int
    parent: Annotated[int | None, Meta(description="whose checkpoint it goes on from")]
    start: Annotated[int, Meta(description="the step behind which it began")]
    end: Annotated[int | None, Meta(description="the last step that it has trained, or at which it was stopped")]
    state: str
    value: float | None
    parameters: Mapping[str, Any]
    run: str | None = None
    children: tuple[int, ...] = ()
    changed: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    is_on_best_line: Annotated[bool, Meta(description="whether it led to the best trial")] = False


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps of a line, from the one behind ``behind`` up to ``until``, that one trial has trained."""

    trial: int
    behind: int
    until: int | None
    parameters: Mapping[str, Any]


def tree(branches: Iterable[Branch], best: int | None = None) -> list[Branch]:
    """Return the trials by number, each with its children and what changed, those of the line of ``best`` marked."""
    by_number = {one.number: one for one in branches}
    children = grouped((one.parent, one.number) for one in by_number.values() if one.parent is not None)
    line = {one.trial for one in line_of(by_number.values(), best)} if best in by_number else set()
    return [
        replace(
            one,
            parent=one.parent if one.parent in by_number else None,
            children=tuple(sorted(children.get(one.number, ()))),
            changed=_changed(by_number.get(one.parent) if one.parent is not None else None, one),
            is_on_best_line=one.number in line,
        )
        for one in sorted(by_number.values(), key=lambda one: one.number)
    ]


def line_of(branches: Iterable[Branch], number: int | None) -> list[Segment]:
    """Return what led to the trial, its first ancestor first. Raises ValueError where one of them is not there."""
    by_number = {one.number: one for one in branches}
    found: list[Segment] = []
    until: int | None = None
    while number is not None:
        one = by_number.get(number)
        if one is None or len(found) > len(by_number):
            raise ValueError(f"trial {number} is not there any more")
        found.append(Segment(one.number, one.start, until if until is not None else one.end, one.parameters))
        until, number = one.start, one.parent
    return found[::-1]


def replay(base: JsonObject, segments: Sequence[Segment], name: str) -> JsonObject:
    """Return the spec of one run that trains the whole line: the parameters of the first segment, and the later ones
    as ``changes``. Its losses are those of the line, bit for bit. Raises ValueError where segments differ in what
    cannot change in mid-training."""
    first = segments[0].parameters
    fixed = {path for one in segments for path in one.parameters if path not in CHANGEABLE_PATHS}
    odd = sorted(path for path in fixed if any(one.parameters.get(path) != first.get(path) for one in segments))
    if odd:
        raise ValueError(f"the trials of the line differ in {listed(odd)}, which cannot change in mid-training")
    settings = []
    for one in segments:
        values = {path: one.parameters[path] for path in CHANGEABLE_PATHS if path in one.parameters}
        settings.append((one.behind, {path.removeprefix("train."): value for path, value in values.items()}))
    document = overlay(base, dict(first))
    return merge(document, {"name": name, "changes": changes_of_line(settings), "checkpoint.restore": ""})


def _changed(parent: Branch | None, one: Branch) -> dict[str, tuple[Any, Any]]:
    if parent is None:
        return {}
    before = parent.parameters
    return {path: (before.get(path), value) for path, value in one.parameters.items() if before.get(path) != value}
