"""Step and pace of a run, computed from its points alone. Pure."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from runs.records.metrics.codec import Floats, Steps

KEEP = 101  # the median is over this many of the newest intervals
SYSTEM = "system/"
TRAIN = "train/"


@dataclass(frozen=True)
class Pace:
    """``step`` is the largest of the newest attempt, ``step_at`` the first time that any rank logged it."""

    attempt: int = 0
    step: int | None = None
    step_at: float | None = None
    intervals_s: list[float] = field(default_factory=list)  # seconds per step, newest last

    @property
    def median_step_s(self) -> float | None:
        return statistics.median(self.intervals_s) if self.intervals_s else None


def advanced(pace: Pace, attempt: int, axes: Iterable[tuple[Iterable[str], Steps, Floats]]) -> Pace:
    """Return the pace after these points (names of series, their steps and times) of an attempt.

    An older attempt changes nothing; a newer one starts from its own first step (a restart goes back to a
    checkpoint), and the intervals stay, since the run's speed is what it was until shown otherwise.
    """
    if attempt < pace.attempt:
        return pace
    spoken = [(names, _newest(steps, times)) for names, steps, times in axes if steps.size and _says_something(names)]
    # Validation comes after the step it is named for: it says when a step was over only where nothing better does.
    train = [axis for names, axis in spoken if any(name.startswith(TRAIN) for name in names)]
    train = train or [axis for _, axis in spoken]
    if not train:
        return pace
    step, step_at = (pace.step, pace.step_at) if attempt == pace.attempt else (None, None)
    steps, times = _newest(*(np.concatenate(columns) for columns in zip(*train, strict=True)))
    if step is not None and step_at is not None:
        times, steps = times[steps > step], steps[steps > step]
        if not steps.size:
            return Pace(attempt, step, step_at, pace.intervals_s)
        steps, times = np.insert(steps, 0, step), np.insert(times, 0, step_at)
    newest = slice(-KEEP - 1, None)
    gaps = np.maximum(np.diff(steps[newest].astype(np.float64)), 1)  # as floats, large neighbours may be the same
    took = np.diff(times[newest]) / gaps
    intervals = [*pace.intervals_s, *took[took > 0].tolist()][-KEEP:]  # a clock that jumped back says nothing
    return Pace(attempt, int(steps[-1]), float(times[-1]), intervals)


def _says_something(names: Iterable[str]) -> bool:
    return not all(name.startswith(SYSTEM) for name in names)


def _newest(steps: Steps, times: Floats) -> tuple[Steps, Floats]:
    """Return the largest steps, in order, each with its first time: as many as the median can need."""
    if (steps[1:] <= steps[:-1]).any():
        order = np.lexsort((times, steps))
        steps, first = np.unique(steps[order], return_index=True)
        times = times[order][first]
    return steps[-KEEP - 1 :], times[-KEEP - 1 :]
