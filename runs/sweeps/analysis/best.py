"""The best value so far, over trials and over the compute that they took."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from trainyard.spec.sweeps import Dimension

NUMBERS = (int, float)  # a union would be made anew at each look, of which there are many
COMPLETE, PRUNED, RUNNING = "COMPLETE", "PRUNED", "RUNNING"
MAXIMIZE = "maximize"


class TrialPoint(NamedTuple):
    """A trial as charts and the analysis see it, read in a fraction of the time. Without its run its times are not
    known."""

    number: int
    state: str
    value: float | None
    values: tuple[float, ...]
    parameters: Mapping[str, Any]
    ended_at: datetime | None = None
    steps: int | None = None
    rank_seconds: float = 0.0
    run: str | None = None
    num_ranks: int = 1
    step_cost: float | None = None  # rank-seconds that a step of a pruned one usually took


class SpaceField(NamedTuple):
    """A field that varies: a range of numbers, or ``choices`` as texts."""

    path: str
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    choices: tuple[str, ...] = ()

    @property
    def is_choice(self) -> bool:
        return bool(self.choices)


def complete(trials: Iterable[TrialPoint]) -> list[TrialPoint]:
    """The trials that reached their end with a number as value."""
    return [one for one in trials if one.state == COMPLETE and one.value is not None and math.isfinite(one.value)]


def fields_of(space: Mapping[str, Dimension]) -> list[SpaceField]:
    """The space of a sweep as its analysis sees it."""
    return [
        SpaceField(path, choices=tuple(map(text_of, one.values)))
        if one.values is not None
        else SpaceField(path, *one.bounds, is_log=one.log)
        for path, one in space.items()
    ]


def text_of(value: object) -> str:
    """A value as people read it, and as one that is not a number is told from others."""
    return value if isinstance(value, str) else json.dumps(value)


def with_seen(field: SpaceField, trials: Iterable[TrialPoint]) -> SpaceField:
    """The field, wide enough for every value that a trial had: one added by hand may lie outside of the space, and
    a space that was changed no longer names what it had before."""
    seen = [one.parameters[field.path] for one in trials if field.path in one.parameters]
    if field.is_choice:
        return field._replace(choices=tuple(dict.fromkeys((*field.choices, *map(text_of, seen)))))
    numbers = [one for one in seen if is_number(one)]
    return field._replace(low=float(min([field.low, *numbers])), high=float(max([field.high, *numbers])))


def is_number(value: object) -> TypeGuard[float]:
    kind = type(value)  # nearly always one of these: a long sweep has a hundred thousand values
    if kind is float or kind is int:
        return math.isfinite(value)  # type: ignore[arg-type]
    return isinstance(value, NUMBERS) and not isinstance(value, bool) and math.isfinite(value)


class Improvement(NamedTuple):
    """A trial that was better than all before it. ``at`` is where on the axis it was known."""

    at: float
    number: int
    value: float


class BestSoFar(NamedTuple):
    """``end`` is how far the axis reaches: the last improvement holds up to there."""

    improvements: list[Improvement]
    end: float


def best_over_trials(trials: Sequence[TrialPoint], direction: str) -> BestSoFar:
    """The axis counts trials by their number."""
    ordered = sorted(complete(trials), key=lambda one: one.number)
    end = max((one.number for one in trials), default=0)
    return BestSoFar(_improvements(((float(one.number), one) for one in ordered), direction), float(end))


def best_over_compute(trials: Sequence[TrialPoint], direction: str) -> BestSoFar:
    """The axis counts the rank-seconds that all trials had taken when one of them ended, failed and pruned ones too."""
    ended = sorted((one.ended_at, one.number, one) for one in trials if one.ended_at is not None)
    known = {one.number for one in complete(trials)}
    found: list[tuple[float, TrialPoint]] = []
    spent = 0.0
    for _, _, one in ended:
        spent += one.rank_seconds
        if one.number in known:
            found.append((spent, one))
    return BestSoFar(_improvements(found, direction), spent)


def _improvements(ordered: Iterable[tuple[float, TrialPoint]], direction: str) -> list[Improvement]:
    found: list[Improvement] = []
    sign = 1.0 if direction == MAXIMIZE else -1.0
    for at, one in ordered:
        assert one.value is not None  # complete() saw to it
        if not found or sign * one.value > sign * found[-1].value:
            found.append(Improvement(at, one.number, one.value))
    return found


# The Pareto front: the trials than which no other is better in one objective and no worse in the others.


def pareto_front(trials: Sequence[TrialPoint], directions: Sequence[str]) -> list[int]:
    """Return the numbers of the trials on the front, by the first objective. Equal trials are all on it."""
    known = [one for one in trials if one.state == COMPLETE and _is_whole(one.values, len(directions))]
    if not known:
        return []
    signs = np.array([-1.0 if one == MAXIMIZE else 1.0 for one in directions])
    costs = np.array([one.values for one in known], dtype=float) * signs
    order = np.lexsort(costs.T[::-1])  # by the first objective, then by the second…
    front: list[int] = []
    left, places = costs[order], order
    while len(left):
        # The first trial in this order is dominated by no later one.
        front.append(int(places[0]))
        is_equal = (left == left[0]).all(axis=1)
        front += [int(place) for place in places[is_equal][1:]]
        is_open = (left < left[0]).any(axis=1)
        left, places = left[is_open], places[is_open]
    return [known[place].number for place in front]


def _is_whole(values: Sequence[float], num: int) -> bool:
    return len(values) == num and all(math.isfinite(one) for one in values)
