"""Comparison of a metric of some runs with the same metric of others, where both vary with the seed."""

import math
import random
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import NamedTuple

NUM_SHUFFLES = 1999
EARLY = 0.001  # how sure a look before the last one must be
NUM_LOOKS = 3


class Comparison(NamedTuple):
    p: float  # how likely so large a worsening is where nothing changed
    worse_by: float  # difference of the means, in the metric's unit; negative: better
    in_deviations: float | None  # the same in standard deviations of single runs; None: they do not vary


def compare(new: Sequence[float], baseline: Sequence[float], *, lower_is_better: bool) -> Comparison:
    """Return how much worse the new values are, by a one-sided permutation test of the means (Fisher, The Design of
    Experiments, 1935), whose p counts the drawn order itself (Phipson and Smyth, 2010, https://doi.org/10.2202/1544-6115.1585).
    Raises ValueError for no values. The same values give the same p."""
    if not new or not baseline:
        raise ValueError("there are no values to compare")
    sign = 1.0 if lower_is_better else -1.0
    pool = [sign * value for value in (*new, *baseline)]
    count, total = len(new), math.fsum(pool)
    worst = math.fsum(pool[:count])
    close = 1e-12 * max(map(abs, pool))  # sums of the same values in another order
    draw = random.Random(0)  # no secret
    reached = sum(math.fsum(draw.sample(pool, count)) >= worst - close for _ in range(NUM_SHUFFLES))
    worse_by = worst / count - (total - worst) / len(baseline)
    spread = deviation(new, baseline)
    return Comparison((reached + 1) / (NUM_SHUFFLES + 1), worse_by, worse_by / spread if spread else None)


def deviation(*groups: Sequence[float]) -> float:
    """Return the pooled standard deviation of single values about the mean of their group; 0 where none has two."""
    free = sum(len(group) - 1 for group in groups)
    squares = math.fsum((value - fmean(group)) ** 2 for group in groups for value in group)
    return math.sqrt(squares / free) if free else 0.0


def threshold(look: int, looks: int, alpha: float) -> float:
    """Return the p below which look number ``look`` of ``looks`` finds a worsening: hardly any before the last
    (Haybittle, 1971; Peto, 1976), and at the last what is left: all together raise at most ``alpha`` false alarms."""
    return EARLY if look < looks else alpha - EARLY * (looks - 1)


def looks(count: int) -> list[int]:
    """Return after how many of ``count`` runs is looked: fewer than six at a time cannot be sure."""
    return sorted(
        {count} | {count * look // NUM_LOOKS for look in range(1, NUM_LOOKS) if count * look // NUM_LOOKS >= 6}
    )


def power(new: int, baseline: int, deviations: float, alpha: float) -> float:
    """Return how likely the last look finds a worsening of so many standard deviations, by the normal approximation."""
    at = NormalDist()
    last = threshold(NUM_LOOKS, NUM_LOOKS, alpha)
    return at.cdf(deviations * math.sqrt(new * baseline / (new + baseline)) - at.inv_cdf(1 - last))
