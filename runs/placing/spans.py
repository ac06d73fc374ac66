"""Times that nobody knows for sure: what is expected, and how far it may be off. Pure."""

from collections.abc import Sequence
from random import Random
from statistics import quantiles
from typing import NamedTuple

ALIKE = 3  # runs, of which the durations say something


class Span(NamedTuple):
    """Seconds: as is expected, and the ends of a band that holds four of five."""

    low: float
    expected: float
    high: float
    samples: tuple[float, ...] = ()  # that it comes from, where there are any

    def drawn(self, random: Random) -> float:
        return random.choice(self.samples or self[:3])


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
