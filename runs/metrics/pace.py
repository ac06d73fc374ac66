"""How far and how fast a run steps, told from its points alone. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from runs.metrics.codec import Columns

KEEP = 101  # the median is over this many of the newest intervals
SYSTEM = "system/"
TRAIN = "train/"


@dataclass(frozen=True)
class Pace:
    """``step`` is the largest of the newest attempt, ``step_at`` the first time that any rank spoke of it."""

    attempt: int = 0
    step: int | None = None
    step_at: float | None = None
    intervals_s: list[float] = field(default_factory=list)  # seconds per step, newest last

    @property
    def median_step_s(self) -> float | None:
        return statistics.median(self.intervals_s) if self.intervals_s else None


def advanced(pace: Pace, attempt: int, points: Iterable[tuple[str, Columns]]) -> Pace:
    """Return the pace after these points (name of the series, columns) of an attempt.

    An older attempt changes nothing; a newer one starts from its own first step (a restart goes back to a
    checkpoint), and the intervals stay, since the run's speed is what it was until shown otherwise.
    """
    if attempt < pace.attempt:
        return pace
    spoken = [(name, columns) for name, columns in points if not name.startswith(SYSTEM) and columns.size]
    # Validation comes after the step it is named for: it says when a step was over only where nothing better does.
    train = [columns for name, columns in spoken if name.startswith(TRAIN)] or [columns for _, columns in spoken]
    if not train:
        return pace
    step, step_at = (pace.step, pace.step_at) if attempt == pace.attempt else (None, None)
    steps = np.concatenate([columns.steps for columns in train])
    times = np.concatenate([columns.times for columns in train])
    order = np.lexsort((times, steps))
    steps, first = np.unique(steps[order], return_index=True)
    times = times[order][first]
    if step is not None and step_at is not None:
        times, steps = times[steps > step], steps[steps > step]
        if not steps.size:
            return Pace(attempt, step, step_at, pace.intervals_s)
        steps, times = np.insert(steps, 0, step), np.insert(times, 0, step_at)
    newest = slice(-KEEP - 1, None)
    took = np.diff(times[newest]) / np.diff(steps[newest].astype(np.float64))
    intervals = [*pace.intervals_s, *took[took > 0].tolist()][-KEEP:]  # a clock that jumped back says nothing
    return Pace(attempt, int(steps[-1]), float(times[-1]), intervals)
