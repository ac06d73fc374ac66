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
    without = f"; {numbers.count(found.num_missing)} without a value" if found.num_missing else ""
    if found.texts:
        return Spread(f"{numbers.count(found.num_texts)} with a text{without}", texts=found.texts[:MOST_TEXTS])
    top, (first, *_, last) = max(found.counts), found.edges
    bars = [
        Bar(place * WIDTH, HEIGHT - height, height, _short(low, DOWN), _short(high, UP),
            f"{numbers.number(low)} to {numbers.number(high)}: {numbers.count(count)}")
        for place, ((low, high), count) in enumerate(zip(pairwise(found.edges), found.counts, strict=True))
        if (height := round(HEIGHT * count / top, 1)) >= 0
    ]  # fmt: skip
    total = numbers.count(sum(found.counts))
    return Spread(f"{total} from {numbers.number(first)} to {numbers.number(last)}{without}", bars)


def _short(edge: float, rounding: Context) -> str:
    """Return it in six digits, rounded such that no value falls out."""
    return repr(float(rounding.create_decimal_from_float(edge)))
