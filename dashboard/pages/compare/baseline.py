"""How far a run is from the baseline, in words, and whether seeds say that this is more than noise."""

import math
import re
from collections.abc import Sequence
from statistics import fmean, variance
from typing import NamedTuple

from runs.finding.fields import MORE_IS_BETTER
from runs.presenting.measured import SPEEDS
from runs.records.metrics.progress import stated_goal

# The last word of the name of a series of which less is better. Of others nobody says which way is better.
LESS_IS_BETTER = {"cer", "error", "fid", "loss", "mae", "mape", "mse", "nll", "perplexity", "ppl", "rmse", "wer"}
NOISE = 0.05  # p from which on a difference is within noise
STEPS = 300  # of a continued fraction; tens are enough for what is tested here
TINY = 1e-300
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
    return Welch(t, freedom, incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function, by its continued fraction (Abramowitz and Stegun, 26.5.8). Of
    Student's t with ``n`` degrees of freedom the two-sided p is this at n/2, 1/2 and n / (n + t²)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # there the other end's fraction is the one that ends soon
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    above, below, found = 1.0, 0.0, 1.0
    for step in range(STEPS):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        below = 1 / _apart(1 + term * below)
        above = _apart(1 + term / above)
        found *= above * below
        if abs(1 - above * below) < 1e-12:
            break
    return front * (found - 1)


def _apart(value: float) -> float:
    """The value, away from zero: it is divided by."""
    return value if abs(value) > TINY else TINY
