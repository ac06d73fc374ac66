"""How the values of a column are spread over the runs of the table: bars, which one brushes, or the frequent texts."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from itertools import pairwise
from typing import NamedTuple

from django.db.models import QuerySet

from dashboard.pages.shared import numbers
from runs.finding import columns as finding
from runs.models import Run

BINS, MOST_TEXTS = 24, 6
WIDTH, HEIGHT = 10, 40  # of a bar, in the units of the drawing
DOWN, UP = Context(6, ROUND_FLOOR), Context(6, ROUND_CEILING)


class Bar(NamedTuple):
    x: int
    y: float
    height: float
    low: str
    high: str
    words: str


class Spread(NamedTuple):
    words: str
    bars: Sequence[Bar] = ()
    texts: Sequence[tuple[str, int]] = ()

    @property
    def width(self) -> int:
        return WIDTH * len(self.bars)


def spread_of(runs: QuerySet[Run], name: str) -> Spread:
    """Raises FilterError for a field that there is not."""
    found = finding.distribution(runs, name, BINS)
    if found is None:
        return Spread("No run has a value.")
    words, bars = [], []
    if found.counts:
        low, high = numbers.number(found.edges[0]), numbers.number(found.edges[-1])
        words.append(f"{numbers.count(sum(found.counts))} from {low} to {high}")
        spans = zip(pairwise(found.edges), found.counts, strict=True)
        bars = [_bar(place, *edges, count, max(found.counts)) for place, (edges, count) in enumerate(spans)]
    words += [f"{numbers.count(found.num_texts)} with a text"] if found.texts else []
    words += [f"{numbers.count(found.num_missing)} without a value"] if found.num_missing else []
    return Spread("; ".join(words), bars, found.texts[:MOST_TEXTS])


def _bar(place: int, low: float, high: float, count: int, most: int) -> Bar:
    height = round(HEIGHT * count / most, 1)
    words = f"{numbers.number(low)} to {numbers.number(high)}: {numbers.count(count)}"
    return Bar(place * WIDTH, HEIGHT - height, height, _short(low, DOWN), _short(high, UP), words)


def _short(edge: float, rounding: Context) -> str:
    """Return it in six digits, rounded such that no value falls out."""
    return repr(float(rounding.create_decimal_from_float(edge)))
