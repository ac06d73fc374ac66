"""The best value so far, over trials and over the compute that they took."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from runs.sweeps.analysis.trials import COMPLETE, MAXIMIZE, TrialLike, complete, is_better


class Improvement(NamedTuple):
    """A trial that was better than all before it. ``at`` is where on the axis it was known."""

    at: float
    number: int
    value: float


class BestSoFar(NamedTuple):
    """``end`` is how far the axis reaches: the last improvement holds up to there."""

    improvements: list[Improvement]
    end: float


def best_over_trials(trials: Sequence[TrialLike], direction: str) -> BestSoFar:
    """The axis counts trials by their number."""
    ordered = sorted(complete(trials), key=lambda one: one.number)
    end = max((one.number for one in trials), default=0)
    return BestSoFar(_improvements(((float(one.number), one) for one in ordered), direction), float(end))


def best_over_compute(trials: Sequence[TrialLike], direction: str) -> BestSoFar:
    """The axis counts the rank-seconds that all trials had taken when one of them ended, failed and pruned ones too."""
    ended = sorted((one.ended_at, one.number, one) for one in trials if one.ended_at is not None)
    known = {one.number for one in complete(trials)}
    found: list[tuple[float, TrialLike]] = []
    spent = 0.0
    for _, _, one in ended:
        spent += one.rank_seconds
        if one.number in known:
            found.append((spent, one))
    return BestSoFar(_improvements(found, direction), spent)


def _improvements(ordered: Iterable[tuple[float, TrialLike]], direction: str) -> list[Improvement]:
    found: list[Improvement] = []
    for at, one in ordered:
        assert one.value is not None  # complete() saw to it
        if not found or is_better(one.value, found[-1].value, direction):
            found.append(Improvement(at, one.number, one.value))
    return found


# The Pareto front: the trials than which no other is better in one objective and no worse in the others.


def pareto_front(trials: Sequence[TrialLike], directions: Sequence[str]) -> list[int]:
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
