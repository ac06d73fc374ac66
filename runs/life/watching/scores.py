"""Scores of ranks that slow the others down, step by step. Pure.

A waiting rank looks as slow as the rank it waits for, so a rank is judged by the time of its own work, before the
collectives. It has two scores. The relative one compares it with the other ranks in the same steps: the median over the
steps of its time over the ranks' median. The individual one compares its last steps with its own past. Only the
relative one blames: where all ranks became slower, none of them is a straggler.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.values.columns import SlowRank

# The values of `workers.training.measuring.phases`.
OWN = ("data", "forward", "backward", "optimizer")  # what a rank does before it waits for others
WAITING = "communication"
CHECKPOINT = "checkpoint"  # between two steps

# A measure, and the phases whose sum it is.
MEASURES: Mapping[str, tuple[str, ...]] = {
    "own": OWN, "step": (*OWN, WAITING), "wait": (WAITING,), **{name: (name,) for name in (*OWN, CHECKPOINT)},
}  # fmt: skip
# Names of measures on the page.
LABELS: Mapping[str, str] = {
    "own": "Before collectives (own work)",
    "step": "Whole step",
    "wait": "Waiting in collectives",
    **{name: name.capitalize() for name in (*OWN, CHECKPOINT)},
}
Matrix = NDArray[np.float64]  # seconds, (ranks, steps); NaN where a rank has no point

WARM_UP = 10  # first steps of an attempt, in which ranks make what later steps only use
PARTS = 4  # of the window: a rank is slow in each of them, not only on the whole
LEAST_SHARE = 0.8  # of the steps in which it is slower than the others
LEAST_DEVIATIONS = 5.0  # robust deviations of the ranks' scores, where there are enough ranks to have any
RANKS_FOR_DEVIATION = 4
LEAST_WAIT = 0.1  # of a step: what the others wait more than it does
LEAST_DEVIATION = 0.02  # of the scores: ranks are never more alike than this
TO_SIGMA = 1.4826  # of a median absolute deviation, for the normal distribution
QUICK_WEIGHT = 3.0  # of a quick step against slow ones, when it is said since when a rank is slow
NAMED_SHARE = 0.6  # of the time that it loses: the phase that has so much of it is named
ENOUGH_PAST = 20  # steps before the window


class Score(NamedTuple):
    """One rank's scores. ``relative`` is 1 for a rank like the others; ``past`` compares with its own past, None where
    there is too little of it; ``deviation`` counts robust deviations from the others."""

    rank: int
    relative: float
    past: float | None
    deviation: float
    wait: float  # share of the window's time that it waits in collectives


class RankMeasurements(NamedTuple):
    """Measurements of the ranks: ``steps`` rise by one column each, ``phases`` have a row for each of ``ranks``."""

    ranks: Sequence[int]
    steps: NDArray[np.int64]
    phases: Mapping[str, Matrix]

    @property
    def own(self) -> Matrix:
        found: Matrix = np.sum([self.phases[name] for name in OWN], axis=0)
        return found


def scores(measured: RankMeasurements, over: int) -> list[Score]:
    """Return the scores of the last ``over`` steps, by rank; nothing where there are fewer, or one rank."""
    own = measured.own
    if len(measured.ranks) < 2 or own.shape[1] < over or over < 1:
        return []
    window = slice(own.shape[1] - over, None)
    relative = _medians(_ratios(own[:, window]))
    deviations = _deviations(relative)
    waits = _wait_shares(own[:, window], measured.phases[WAITING][:, window])
    before = own[:, : own.shape[1] - over]
    past: list[float | None] = [None] * len(measured.ranks)
    if before.shape[1] >= ENOUGH_PAST:
        past = [_ratio(now, then) for now, then in zip(_medians(own[:, window]), _medians(before), strict=True)]
    return [
        Score(rank, float(relative[at]), past[at], float(deviations[at]), float(waits[at]))
        for at, rank in enumerate(measured.ranks)
    ]


def slow_ranks(
    measured: RankMeasurements, *, factor: float, over: int, known: Mapping[int, int] | None = None, waits: bool = True
) -> list[SlowRank]:
    """Return the ranks whose own work took ``factor`` times as long as the others' in the last ``over`` steps.

    ``known`` are the ranks that are blamed already, with the step since when: they stay blamed until they have come
    half of the way back. ``waits``: the others wait for them in each step, as the window must show.
    """
    known = known or {}
    found = scores(measured, over)
    ratios = _ratios(measured.own[:, -over:])
    blamed = [
        at
        for at, score in enumerate(found)
        if _is_slow(ratios[at], 1 + (factor - 1) / 2 if score.rank in known else factor)
        and _stands_out(score, found, is_known=score.rank in known, waits=waits)
    ]
    if not blamed or 2 * len(blamed) > len(found):  # most are as slow: then nobody is
        return []
    others = [at for at in range(len(found)) if at not in blamed]
    return [_described(measured, at, others, over, factor, known.get(found[at].rank)) for at in blamed]


def _is_slow(ratios: Matrix, factor: float) -> bool:
    """Return whether a rank is slower in each part of the window, and in most of its steps."""
    seen = ratios[np.isfinite(ratios)]
    if seen.size < max(PARTS, ratios.size // 2):
        return False
    parts = [float(np.median(part)) for part in np.array_split(seen, PARTS)]
    half_way = 1 + (factor - 1) / 2
    is_steady = bool(np.mean(seen >= half_way) >= LEAST_SHARE)
    return is_steady and min(parts) >= half_way and float(np.median(seen)) >= factor


def _stands_out(score: Score, all_scores: Sequence[Score], *, is_known: bool, waits: bool) -> bool:
    if len(all_scores) >= RANKS_FOR_DEVIATION and score.deviation < LEAST_DEVIATIONS and not is_known:
        return False
    if not waits:
        return True
    others = [one.wait for one in all_scores if one.rank != score.rank]
    return float(np.median(others)) - score.wait >= (LEAST_WAIT / 2 if is_known else LEAST_WAIT)


def _described(
    measured: RankMeasurements, at: int, others: Sequence[int], over: int, factor: float, since: int | None
) -> SlowRank:
    """Name the phase in which the rank loses its time."""
    excess, times = {}, {}
    for name in OWN:
        own, usual = (_medians(measured.phases[name][rows, -over:]) for rows in ([at], list(others)))
        excess[name] = max(0.0, float(own[0] - np.median(usual)))
        times[name] = _ratio(float(own[0]), float(np.median(usual)))
    phase = max(excess, key=lambda name: excess[name])
    total = sum(excess.values())
    is_named = total > 0 and excess[phase] >= NAMED_SHARE * total
    whole = _medians(_ratios(measured.own[:, -over:]))[at]
    shown = times[phase] if is_named else None
    return SlowRank(
        rank=measured.ranks[at],
        times=round(float(whole) if shown is None else shown, 3),
        phase=phase if is_named else "",
        excess_s=round(total, 6),
        since_step=since if since is not None else _since(measured, at, factor),
        last_step=int(measured.steps[-1]),
    )


def _since(measured: RankMeasurements, at: int, factor: float) -> int:
    """Return the step since when the rank is slow: of the steps up to the last those in which most are slow."""
    is_slow = _ratios(measured.own)[at] >= 1 + (factor - 1) / 2
    from_end = np.cumsum(np.where(is_slow, 1.0, -QUICK_WEIGHT)[::-1])
    return int(measured.steps[len(is_slow) - 1 - int(from_end.argmax())])


def _ratios(own: Matrix) -> Matrix:
    """Return each time over the lower median of the ranks in that step."""
    ordered = np.sort(own, axis=0)  # NaN comes last
    num_seen = np.sum(np.isfinite(own), axis=0)
    usual = ordered[np.maximum(num_seen - 1, 0) // 2, np.arange(own.shape[1])]
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Matrix = np.where((num_seen > 1) & (usual > 0), own / usual, np.nan)
    return found


def _medians(values: Matrix) -> Matrix:
    """Return the median of each row over what is there; NaN where nothing is."""
    found: Matrix = np.array([np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in values])
    return found


def _deviations(relative: Matrix) -> Matrix:
    """Return how many robust deviations each score is above the median of all."""
    middle = np.nanmedian(relative) if np.isfinite(relative).any() else np.nan
    spread = TO_SIGMA * np.nanmedian(np.abs(relative - middle)) if np.isfinite(middle) else np.nan
    found: Matrix = (relative - middle) / max(LEAST_DEVIATION, float(spread))
    return found


def _wait_shares(own: Matrix, waiting: Matrix) -> Matrix:
    total = np.nansum(own, axis=1) + np.nansum(waiting, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Matrix = np.where(total > 0, np.nansum(waiting, axis=1) / total, 0.0)
    return found


def _ratio(one: float, other: float) -> float | None:
    return float(one / other) if other > 0 and math.isfinite(one) and math.isfinite(other) else None


def series_of(phase: str) -> str:
    """Return the name of the series with the seconds of a phase."""
    return f"rank/phase/{phase}_s"
