"""The Pareto front: the trials than which no other is better in one objective and no worse in the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from runs.sweeps.analysis.trials import COMPLETE, MAXIMIZE, TrialLike


def pareto_front(trials: Sequence[TrialLike], directions: Sequence[str]) -> list[int]:
    """Return the numbers of the trials on the front, by the first objective. Equal trials are all on it."""
    known = [one for one in trials if one.state == COMPLETE and _is_whole(one.values, len(directions))]
    if not known:
        return []
    signs = np.array([-1.0 if one == MAXIMIZE else 1.0 for one in directions])
    costs = np.array([one.values for one in known], dtype=float) * signs
    order = np.lexsort(costs.T[::-1])  # by the first objective, then by the second…
    front: list[int] = []
    left = costs[order]
    places = order
    while len(left):
        # What comes first in this order is dominated by nothing that comes later.
        front.append(int(places[0]))
        is_equal = (left == left[0]).all(axis=1)
        front += [int(place) for place in places[is_equal][1:]]
        is_open = (left < left[0]).any(axis=1)
        left, places = left[is_open], places[is_open]
    return [known[place].number for place in front]


def _is_whole(values: Sequence[float], num: int) -> bool:
    return len(values) == num and all(math.isfinite(one) for one in values)
