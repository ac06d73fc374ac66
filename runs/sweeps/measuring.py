"""How far a trial was at a step, in what its pruner counts: steps, seconds of training, or tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from runs.models import Attempt
from runs.points.read import Curve, curves
from trainyard.spec.sweeps.models import Measure

TOKENS = "train/tokens"  # how many have been trained on, by step
MOST_POINTS = 400
Reached = Callable[[int], float | None]  # by step; None where nothing is known yet


def reached_by(run_id: str, measure: Measure, metric: str) -> Reached:
    """Return what says how far the run was at a step of ``metric``. Between two points it is interpolated."""
    if measure == "steps":
        return float
    _, found = curves({run_id: (None, None)}, [metric if measure == "time" else TOKENS], points=MOST_POINTS)
    if measure == "tokens":
        points = [pair for curve in found for pair in _pairs(curve)]
        return _interpolated([(0, 0.0), *(pair for pair in points if pair[0] > 0)] if points else [])
    rows = Attempt.objects.filter(run=run_id).values_list("fence", "go_at")
    started = {fence: at.timestamp() for fence, at in rows if at is not None}
    return _interpolated(seconds_trained(found, started))


def seconds_trained(found: Iterable[Curve], started: Mapping[int, float]) -> list[tuple[int, float]]:
    """Return how long ranks had trained at each step. What passed between two attempts does not count, nor what an
    attempt trained that the next one trained again. ``started`` says by fence when the ranks did."""
    points: list[tuple[int, float]] = []
    before = 0.0
    by_attempt = sorted(found, key=lambda curve: curve.attempt)
    for attempt, group in groupby(by_attempt, key=lambda curve: curve.attempt):
        own = sorted(pair for curve in group for pair in _pairs(curve, "time"))
        if not own:
            continue
        start = started.get(attempt, own[0][1])
        points += [(step, before + max(0.0, at - start)) for step, at in own]
        before = points[-1][1]
    return points


def _pairs(curve: Curve, column: str = "") -> list[tuple[int, float]]:
    column = column or ("value" if curve.kind == "raw" else "last")
    return list(zip(curve.columns["step"].tolist(), curve.columns[column].tolist(), strict=True))


def _interpolated(points: Sequence[tuple[int, float]]) -> Reached:
    by_step = dict(points)  # of several ranks the last
    steps = sorted(by_step)
    heights = [by_step[step] for step in steps]
    return lambda step: float(np.interp(step, steps, heights)) if steps else None
