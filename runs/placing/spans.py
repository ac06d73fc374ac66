"""Times that nobody knows for sure: what is expected, and how far it may be off. Pure."""

from collections.abc import Sequence
from math import log
from random import Random
from statistics import quantiles
from typing import NamedTuple

ALIKE = 3  # runs, of which the durations say something
FEWEST, NEAREST = 20, 40  # outcomes from which predictions are corrected, and those of the most alike
SHORT_S, STEP = 60.0, 0.02  # waits below are alike; by how much each outcome moves the part that may be missed


class Span(NamedTuple):
    """Seconds: as is expected, and the ends of a band that holds four of five."""

    low: float
    expected: float
    high: float
    samples: tuple[float, ...] = ()  # that it comes from, where there are any

    def drawn(self, random: Random) -> float:
        return random.choice(self.samples) if self.samples else random.choices(self[:3], (1, 8, 1))[0]


def same(seconds: float, *, low: float = 1.0, high: float = 1.0) -> Span:
    """Return the span around so many seconds; ``low`` and ``high`` are its ends as parts of them."""
    return Span(low * seconds, seconds, high * seconds)


def span_of(seconds: Sequence[float], elapsed: float = 0.0) -> Span | None:
    """Return what is left of a run of which ``elapsed`` is over, by how long runs like it took. One that has outlived
    them all is expected to go on for half as long again."""
    left = [one - elapsed for one in seconds if one > elapsed]
    if len(seconds) < ALIKE:
        return None
    if not left:
        return Span(0.1 * elapsed, 0.5 * elapsed, 2 * elapsed)
    cuts = quantiles(left, n=10, method="inclusive") if len(left) > 1 else left * 9
    return Span(cuts[0], cuts[4], cuts[8], tuple(left))


class Outcome(NamedTuple):
    """A run that was told when it would start, in seconds from then. ``played``: what was expected before its
    correction; ``came``: when it did."""

    played: float
    expected: float
    low: float
    high: float
    came: float

    @property
    def is_inside(self) -> bool:
        return self.low - 1 <= self.came <= self.high + 1

    @property
    def is_near(self) -> bool:
        return abs(self.came - self.expected) <= max(SHORT_S, 0.1 * self.came)


def corrected(span: Span, past: Sequence[Outcome]) -> Span:
    """Return the span with the ends that would have held for four of five predictions like it. Where more were missed
    of late than that, the ends lie further apart.

    Source: conformal prediction by ratios, at a level that adapts (Gibbs and Candès, "Adaptive conformal inference
    under distribution shift", NeurIPS 2021)."""
    if len(past) < FEWEST:
        return span
    missed = sum(not one.is_inside for one in past)
    part = min(0.6, max(0.02, 0.2 + STEP * (0.2 * len(past) - missed)))
    middle = max(SHORT_S, span.expected)
    alike = sorted(past, key=lambda one: abs(log(max(SHORT_S, one.played) / middle)))[:NEAREST]
    cuts = quantiles([one.came / max(SHORT_S, one.played) for one in alike], n=100, method="inclusive")
    place = round(50 * part) - 1  # of 99
    low, high = cuts[place] * middle, cuts[-1 - place] * middle
    return Span(low, min(max(low, span.expected), high), high)
