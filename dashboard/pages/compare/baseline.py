"""How far a run is from the baseline, in words, and whether seeds say that this is more than noise."""

import math
import re
from collections.abc import Sequence
from functools import cache
from statistics import fmean, variance
from typing import NamedTuple

import numpy as np

from runs.finding.fields import MORE_IS_BETTER
from runs.presenting.measured import SPEEDS
from runs.records.metrics.progress import stated_goal

# The last word of the name of a series of which less is better. Of others nobody says which way is better.
LESS_IS_BETTER = {"cer", "error", "fid", "loss", "mae", "mape", "mse", "nll", "perplexity", "ppl", "rmse", "wer"}
NOISE = 0.05  # p from which on a difference is within noise
NODES = 200  # of an integral, which are enough for thousands of degrees of freedom
rule_of = cache(np.polynomial.legendre.leggauss)
UNKNOWN = "noise cannot be told from"


class Welch(NamedTuple):
    """Result of Welch's t-test: t, the degrees of freedom by Satterthwaite, and the two-sided p."""

    t: float
    freedom: float
    p: float


class Difference(NamedTuple):
    """A value against the baseline's: ``text`` is how far it is, ``noise`` what seeds say of that, and ``tone`` is
    better, worse, or empty where it is neither or nobody knows."""

    text: str
    noise: str
    tone: str

    @property
    def icon(self) -> str:
        return "check" if self.tone == "better" else "alert"

    @property
    def sentence(self) -> str:
        return f"{self.text}; {self.noise}" if self.noise else self.text


def goal_of(series: str, run_ids: Sequence[str]) -> bool | None:
    """Return whether more of the series is better: as the scripts of the runs say, else as its name does."""
    stated = stated_goal(run_ids, series)
    return is_more_better(series) if stated is None else stated


def is_more_better(series: str) -> bool | None:
    """Return whether more of the series is better; None where its name does not say."""
    if series in SPEEDS:
        return True
    last_word = re.split(r"[^a-z0-9]+", series.lower())[-1]
    return True if last_word in MORE_IS_BETTER else False if last_word in LESS_IS_BETTER else None


def difference(
    goal: bool | None, value: float | None, base: float | None, own: Sequence[float], others: Sequence[float], noun: str
) -> Difference:
    """Return how ``value`` stands to the baseline's ``base``. ``goal``: is more better? ``own`` and ``others``
    are the values of both sides, a run each, and ``noun`` what these runs are, such as ``seeds``."""
    if base is None:
        return Difference("The baseline has no number here", "", "")
    if value is None:
        return Difference("No number to compare", "", "")
    if value == base:
        return Difference("The same as baseline", "", "")
    is_more = value > base
    tone = "" if goal is None else "better" if goal is is_more else "worse"
    noise, is_noise = noise_of(own, others, noun)
    return Difference(_far(value, base, is_more=is_more), noise, "" if is_noise else tone)


def _far(value: float, base: float, *, is_more: bool) -> str:
    share = abs(value - base) / abs(base) * 100 if base else math.inf
    if not math.isfinite(share):
        return f"{abs(value - base):.3g} {'above' if is_more else 'below'} baseline"
    words = f"{share:.2g}" if share < 10 else f"{share:,.0f}"
    return f"{words if share >= 0.01 else 'less than 0.01'} % {'higher' if is_more else 'lower'} than baseline"


def noise_of(own: Sequence[float], others: Sequence[float], noun: str) -> tuple[str, bool]:
    """Return what the values of both sides say of noise, and whether their difference is within it."""
    sides = f"{len(own)} and {len(others)} {noun}"
    if len(own) < 2 or len(others) < 2:
        several = f"one {noun.removesuffix('s')} each" if len(own) == len(others) == 1 else sides
        return f"{UNKNOWN} {several}", False
    found = welch(own, others)
    if found is None:
        return f"no noise to speak of: both sides have equal values ({sides})", False
    p = f"p = {found.p:.2f}" if found.p >= 0.01 else "p < 0.01"
    return f"{'within' if found.p >= NOISE else 'beyond'} noise ({p}, {sides})", found.p >= NOISE


def welch(one: Sequence[float], other: Sequence[float]) -> Welch | None:
    """Return the t-test of Welch (1947) for the means of two samples of unequal variance, both of two values or more;
    None where neither varies."""
    first, second = (variance(values) / len(values) for values in (one, other))
    spread = first + second
    if not spread > 0 or not math.isfinite(spread):
        return None
    t = (fmean(one) - fmean(other)) / math.sqrt(spread)
    freedom = spread**2 / (first**2 / (len(one) - 1) + second**2 / (len(other) - 1))
    return Welch(t, freedom, two_sided_p(t, freedom))


def two_sided_p(t: float, freedom: float) -> float:
    """Return how likely Student's t is at least so far from 0: behind t = sqrt(n) tan(angle) lie angles whose density
    is that of cos(angle) to the power of n - 1. Integrated by the rule of Gauss and Legendre."""
    nodes, weights = rule_of(NODES)
    begin = math.atan(abs(t) / math.sqrt(freedom))
    half = (math.pi / 2 - begin) / 2
    tail = half * float(weights @ np.cos(begin + half * (1 + nodes)) ** (freedom - 1))
    return 2 * tail * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
