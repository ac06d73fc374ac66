"""Values of a series that break a rule: not finite, or a spike. Pure.

A spike is a value that lies more than ``spike`` robust deviations above the median of the ``over`` values before it.
The deviation is the median absolute deviation, and never less than a share of the median: a loss that hardly moves any
more has no noise to compare with. Values that broke a rule are not among those that later ones are compared with.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

from trainyard.spec.sections.watch import MetricRule

ENOUGH = 20  # values before one can be a spike
LEAST_DEVIATION = 0.05  # of the median's size
TO_SIGMA = 1.4826


class Point(NamedTuple):
    step: int
    time: float
    value: float


class Broken(NamedTuple):
    """A value that broke the rule. ``usual`` is the median before it, and ``deviations`` how far above it is."""

    point: Point
    kind: Literal["nan", "spike"]
    usual: float | None = None
    deviations: float | None = None


@dataclass
class SeriesWatch:
    """One series under one rule: takes its points in the order of steps."""

    rule: MetricRule
    before: deque[float] = field(init=False)
    last_step: int | None = None
    num_in_a_row: int = 0  # that broke the rule

    def __post_init__(self) -> None:
        self.before = deque(maxlen=self.rule.over)

    def take(self, points: Iterable[Point]) -> Iterator[Broken]:
        """Yield what breaks the rule among the points behind the last that were taken."""
        for point in points:
            if self.last_step is not None and point.step <= self.last_step:
                continue
            self.last_step = point.step
            if not math.isfinite(point.value):
                if self.rule.nan:
                    yield Broken(point, "nan")
                continue
            found = self._spike(point)
            if found is None:
                self.num_in_a_row = 0
                self.before.append(point.value)
                continue
            self.num_in_a_row += 1
            if self.num_in_a_row > self.rule.over:  # it stays there: that is what is usual from now on
                self.before.clear()
                self.num_in_a_row = 0
            yield found

    def _spike(self, point: Point) -> Broken | None:
        if self.rule.spike <= 0 or len(self.before) < min(ENOUGH, self.rule.over):
            return None
        usual = median(self.before)
        if point.value <= usual:
            return None
        spread = TO_SIGMA * median(abs(one - usual) for one in self.before)
        deviations = (point.value - usual) / max(spread, LEAST_DEVIATION * abs(usual), 1e-12)
        return Broken(point, "spike", usual, deviations) if deviations > self.rule.spike else None
