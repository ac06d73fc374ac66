"""Reading what live trials reported, once a step, and pruning by it.

Reports are written in one transaction and judged by the rows in another: a process killed between the two leaves what
the next one needs.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

import numpy as np

from runs.models import Attempt, Sweep, Trial, TrialReport
from runs.records.metrics.progress import cursors_of
from runs.records.points.read import Curve, curves
from runs.sweeps.ending import prune
from runs.sweeps.objective import reports_of
from runs.sweeps.pruning import Report, bracket_of, judge
from runs.sweeps.search.plain import PastTrial
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec
from trainyard.spec.sweeps.models import Measure

TOKENS = "train/tokens"  # how many have been trained on, by step
MOST_POINTS = 400
Reached = Callable[[int], float | None]  # by step; None where nothing is known yet
MOST_REPORTS = 100  # of a trial, evenly over its steps: what comes between is in the series
RUNGS = "rungs"
History = Callable[[], Sequence[PastTrial]]
STEPS_UNKNOWN = 10_000  # of a script that does not say how long it trains


class Observer:
    """Positions that one process has read: the cursor of each run. A process that begins reads all of them again."""

    def __init__(self) -> None:
        self._cursors: dict[str, int] = {}

    def observe(self, sweep: Sweep, trials: Iterable[Trial], history: History, now: datetime) -> bool:
        """Read what is new of the running trials, and prune. Return whether anything changed. ``history`` returns all
        trials; it is asked where something is new."""
        running = [one for one in trials if one.state == TrialState.RUNNING and one.run_id is not None]
        cursors = cursors_of([str(one.run_id) for one in running]) if running else {}
        changed = [one for one in running if self._cursors.get(str(one.run_id)) != cursors.get(str(one.run_id), 0)]
        rungs = {one.number: rungs_in(one.attributes) for one in history()} if changed else {}
        has_changed = False
        for trial in changed:
            has_changed |= self._look(sweep, trial, rungs, now)
            self._cursors[str(trial.run_id)] = cursors.get(str(trial.run_id), 0)
        return has_changed

    def forget(self, live: Iterable[str]) -> None:
        self._cursors = {run_id: self._cursors[run_id] for run_id in live if run_id in self._cursors}

    def _look(self, sweep: Sweep, trial: Trial, rungs: dict[int, dict[int, float]], now: datetime) -> bool:
        if reports := reports_of(str(trial.run_id), sweep.parsed.objectives[0].metric, trial.steps):
            _store(trial, reports)
        assert trial.run is not None, "it was chosen by its run"
        is_judged = not (trial.is_promoted or sweep.parsed.is_multiple or trial.run.is_final)
        if sweep.parsed.pruner.name == "none" or not is_judged:
            return bool(reports)
        return _judge(sweep, trial, rungs, reports, now) or bool(reports)


def _store(trial: Trial, reports: Sequence[Report]) -> None:
    """Write the reports, thinned out, and how far the trial is. A step that is there stays as it was reported first."""
    assert trial.run is not None, "it was chosen by its run"
    every = max(1, (trial.run.steps or STEPS_UNKNOWN) // MOST_REPORTS)
    place = -1 if trial.steps is None else trial.steps // every
    kept = []
    for report in reports:
        if report.step // every > place and math.isfinite(report.value):
            place = report.step // every
            kept.append(TrialReport(trial=trial, step=report.step, value=report.value))
    TrialReport.objects.bulk_create(kept, ignore_conflicts=True)
    trial.steps = reports[-1].step
    Trial.objects.filter(pk=trial.pk).update(steps=trial.steps)


def _judge(
    sweep: Sweep, trial: Trial, rungs: dict[int, dict[int, float]], fresh: Sequence[Report], now: datetime
) -> bool:
    """Ask the pruner, and stop the trial or keep the steps at which it was let go on. ``rungs`` has those of all trials
    by number, and gets this one's: who is judged next is compared with it."""
    spec = sweep.parsed
    stored = [Report(step, value) for step, value in trial.reports.order_by("step").values_list("step", "value")]
    by_step = {one.step: one for one in (*fresh, *stored)}  # what was stored was reported first
    bracket = bracket_of(spec.pruner, trial.number)
    others = [one for key, one in rungs.items() if key != trial.number and bracket_of(spec.pruner, key) == bracket]
    passed = rungs_in(trial.system_attributes)
    reports = measured(trial, spec, [by_step[step] for step in sorted(by_step)])
    last_step = trial.run.steps if trial.run is not None else None
    verdict = judge(spec.pruner, spec.objectives[0], trial.number, reports, passed, others, last_step)
    if verdict.rungs == passed and verdict.pruned_at is None:
        return False
    rungs[trial.number] = verdict.rungs
    kept = {str(step): value for step, value in verdict.rungs.items()}
    trial.system_attributes = {**trial.system_attributes, RUNGS: kept}
    if verdict.pruned_at is None:
        Trial.objects.filter(pk=trial.pk).update(system_attributes=trial.system_attributes)
        return True
    value = by_step[verdict.pruned_at].value
    finite = value if math.isfinite(value) else None
    return prune(trial, at_step=verdict.pruned_at, value=finite, sentence=verdict.sentence, now=now)


def measured(trial: Trial, spec: SweepSpec, reports: Sequence[Report]) -> list[Report]:
    """Return the reports with how far the trial was, those of which that is known."""
    if spec.pruner.by == "steps":
        return list(reports)
    reached = reached_by(str(trial.run_id), spec.pruner.by, spec.objectives[0].metric)
    found = [replace(one, reached=reached(one.step)) for one in reports]
    return [one for one in found if one.reached is not None]


def rungs_in(attributes: object) -> dict[int, float]:
    kept = attributes.get(RUNGS, {}) if isinstance(attributes, dict) else {}
    return {int(step): float(value) for step, value in kept.items()}


# Progress of a trial at a step, in what its pruner counts: steps, seconds of training, or tokens.


def reached_by(run_id: str, measure: Measure, metric: str) -> Reached:
    """Return what says how far the run was at a step of ``metric``. Between two points it is interpolated."""
    if measure == "steps":
        return float
    _, found = curves({run_id: (None, None)}, [metric if measure == "time" else TOKENS], points=MOST_POINTS)
    if measure == "tokens":
        points = [pair for curve in found for pair in _pairs(curve)]
        return _interpolated([(0, 0.0), *(pair for pair in points if pair[0] > 0)] if points else [])
    rows = Attempt.objects.filter(run=run_id).values_list("fence", "go_at")
    return _interpolated(seconds_trained(found, {fence: at.timestamp() for fence, at in rows if at is not None}))


def seconds_trained(found: Iterable[Curve], started: Mapping[int, float]) -> list[tuple[int, float]]:
    """Return how long ranks had trained at each step. What passed between two attempts does not count, nor what an
    attempt trained that the next one trained again. ``started`` says by fence when the ranks did."""
    points: list[tuple[int, float]] = []
    before = 0.0
    for attempt, group in groupby(sorted(found, key=lambda curve: curve.attempt), key=lambda curve: curve.attempt):
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
