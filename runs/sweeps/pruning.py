"""Early stopping of trials. Pure: reports in, verdict out.

A pruner looks at a trial when it reaches one of its rungs, once. Rungs are steps, seconds of training or tokens. What
the trial had there is kept with it, so that whoever repeats the question after a restart gets the same answer from the
same rows.

- median: stopped where its best value so far is worse than the median of what the others had (Golovin et al. 2017).
- asha: goes on where it is among the best 1/factor of those that reached the rung so far (Li et al. 2020).
- hyperband: asha in brackets that begin at different rungs, by the number of the trial (Li et al. 2018).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from trainyard.spec.sweeps import Objective, Pruner

GROWTH = 1.25  # of the steps between two looks of `median`

Rungs = Mapping[int, float]  # by rung, what a trial had there


@dataclass(frozen=True)
class Report:
    """A value of the objective. It may be NaN or infinite. ``reached`` is how far the trial was, in what its pruner
    counts; None: it counts steps."""

    step: int
    value: float
    reached: float | None = None

    @property
    def progress(self) -> float:
        return self.step if self.reached is None else self.reached


@dataclass(frozen=True)
class PruningVerdict:
    """``rungs`` are all that the trial has reached by now; ``pruned_at`` is None where it goes on."""

    rungs: dict[int, float]
    pruned_at: int | None = None
    sentence: str = ""


def bracket_of(pruner: Pruner, number: int) -> int:
    """Return in which bracket of hyperband the trial is; 0 for other pruners. Trials of one bracket are compared."""
    if pruner.name != "hyperband" or pruner.max is None:
        return 0
    num_brackets = int(math.log(max(pruner.max / pruner.min, 1.0), pruner.factor) + 1e-9) + 1
    return number % num_brackets


def rungs_of(pruner: Pruner, number: int, up_to: float) -> Iterator[int]:
    """Yield the rungs at which the trial is looked at, up to what it has reached."""
    last = up_to if pruner.max is None else min(up_to, pruner.max - 1)
    step = pruner.min * pruner.factor ** bracket_of(pruner, number)
    while step <= last:
        yield step
        step = max(step + 1, math.ceil(step * GROWTH)) if pruner.name == "median" else step * pruner.factor


def judge(
    pruner: Pruner,
    objective: Objective,
    number: int,
    reports: Sequence[Report],
    passed: Rungs,
    others: Sequence[Rungs],
    last_step: int | None = None,
) -> PruningVerdict:
    """Return what follows of a trial's ``reports``, by step. ``passed`` are the rungs at which it was looked at before,
    ``others`` those of the other trials of its bracket. A trial that has reached its ``last_step`` is complete: no rung
    is there."""
    rungs = dict(passed)
    sign = objective.sign
    if pruner.name == "none" or not reports or (last_step is not None and reports[-1].step >= last_step):
        return PruningVerdict(rungs)
    for rung in rungs_of(pruner, number, reports[-1].progress):
        if rung in rungs:
            continue
        at = next(one for one in reports if one.progress >= rung)
        stopped = f"Stopped at {_place(pruner, at)}"
        if not math.isfinite(at.value):
            return PruningVerdict(rungs, at.step, f"{stopped}: {objective.metric} was {at.value}.")
        so_far = [one.value for one in reports if one.step <= at.step and math.isfinite(one.value)]
        rungs[rung] = sign * min(sign * value for value in so_far) if pruner.name == "median" else at.value
        sentence = _why_not(pruner, objective, rungs[rung], [one[rung] for one in others if rung in one])
        if sentence:
            return PruningVerdict(rungs, at.step, f"{stopped}: {sentence}")
    return PruningVerdict(rungs)


def _place(pruner: Pruner, at: Report) -> str:
    words = {"steps": "", "time": f", after {at.progress:,.1f} s", "tokens": f", after {at.progress:,.0f} tokens"}
    return f"step {at.step:,}{words[pruner.by]}"


def _why_not(pruner: Pruner, objective: Objective, value: float, others: Sequence[float]) -> str:
    """Return why a trial with the value does not go on; empty where it does."""
    sign = objective.sign
    shown = f"{objective.metric} {value:.4g}"
    if pruner.name == "median":
        if len(others) < pruner.startup_trials:
            return ""
        middle = median(others)
        is_worse = sign * value > sign * middle
        return f"{shown} is worse than {middle:.4g}, the median of {len(others)} trials." if is_worse else ""
    ranked = sorted(sign * one for one in (*others, value))
    kept = max(1, len(ranked) // pruner.factor)
    if sign * value <= ranked[kept - 1]:
        return ""
    best = "the best" if kept == 1 else f"the best {kept}"
    return f"{shown} is not among {best} of {len(ranked)} trials that came so far."
