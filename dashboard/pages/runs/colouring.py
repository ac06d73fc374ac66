"""Colours of the rows by a field: its most frequent texts have one each, numbers those of the range they lie in."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from django.db.models import QuerySet

from dashboard.pages.shared import numbers
from runs.finding import columns as finding
from runs.models import Run

MOST_TEXTS = 9
RANGES = 5


class Swatch(NamedTuple):
    colour: int  # from 1, as the classes of the series colours count
    words: str


class Colouring(NamedTuple):
    name: str
    texts: list[str]
    edges: list[float]  # between the ranges of numbers

    def of(self, value: float | str | None) -> int:
        """Return the colour of a value; 0 for one that has none."""
        if isinstance(value, str):
            return self.texts.index(value) + 1 if value in self.texts else 0
        return 0 if value is None or not self.edges else bisect_right(self.edges[1:-1], value) + 1

    def of_runs(self, runs: Sequence[Run]) -> dict[str, int]:
        return {key: self.of(found[self.name]) for key, found in finding.values(runs, [self.name]).items()}

    @property
    def swatches(self) -> list[Swatch]:
        if self.texts:
            return [Swatch(place, text) for place, text in enumerate(self.texts, start=1)]
        shown = [numbers.number(edge) for edge in self.edges]
        return [Swatch(place, f"{low} to {high}") for place, (low, high) in enumerate(pairwise(shown), 1)]


def colouring_of(runs: QuerySet[Run], name: str) -> Colouring | None:
    """Return None where no run has a value. Raises FilterError for a field that there is not."""
    found = finding.distribution(runs, name, RANGES)
    if found is None:
        return None
    texts = [text for text, _ in found.texts[:MOST_TEXTS]]
    return Colouring(name, texts, [] if texts else found.edges)
