"""Trials that a pruner stopped: what they had come to, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from runs.life import stopping
from runs.models import Run, Sweep, Trial, TrialReport
from runs.sweeps import actions
from runs.sweeps.analysis.best import SpaceField, fields_of
from runs.sweeps.analysis.importance import HOW_FAR, importance
from runs.sweeps.reading import compared_points
from runs.values.status import Status
from tests.cast import Cast, make_attempt
from tests.runs.sweeps.test_stepping import document, end, report, step, trial
from tests.series import write_series
from trainyard.contract.statuses import SweepStatus, TrialState


@pytest.fixture(autouse=True)
def no_server(valkey: object) -> None:
    """Hints are sent to a server that is there."""


@pytest.fixture
def start(cast: Cast) -> Callable[..., Sweep]:
    return lambda **changes: actions.start_sweep(actor=cast.mate, document=document(**changes))


def test_a_trial_whose_stop_comes_after_its_last_step_is_complete_with_its_final_value(
    start: Callable[..., Sweep],
) -> None:
    sweep = step(start(pruner={"name": "asha", "min": 2, "factor": 2}, budget={"trials": 2, "parallel": 2}))
    report(sweep, 0, 1.0, 0.5)
    report(sweep, 1, 3.0, 2.5, 2.4, ends=False)
    live = trial(sweep, 1).run
    assert live is not None
    Run.objects.filter(pk=live.pk).update(status=Status.STOPPING)  # its ranks have a stop on the way
    Trial.objects.filter(run=live).update(
        state=TrialState.PRUNED, value=2.5, steps=2, pruned_at_step=2, ended_at=timezone.now()
    )
    sweep = step(sweep)
    assert sweep.status == SweepStatus.RUNNING, "a run of it goes on"
    write_series(live, "val/loss", [1.2, 0.25], first=4)
    end(live)
    sweep = step(sweep)
    late = trial(sweep, 1)
    assert (late.state, late.value, late.pruned_at_step) == (TrialState.COMPLETE, 0.25, None)
    assert (sweep.status, sweep.reason_sentence) == (SweepStatus.SUCCEEDED, "2 of 2 trials completed.")
    assert sweep.best is not None and sweep.best.number == 1


def test_what_matters_is_answered_from_every_trial_that_reported_with_how_far_it_went(
    start: Callable[..., Sweep],
) -> None:
    """The value falls with the rate by up to 1, and by 2 over the steps: stopped trials look worse for that alone."""
    sweep = start(budget={"trials": 24})
    states = {0: TrialState.COMPLETE, 1: TrialState.PRUNED, 2: TrialState.RUNNING, 3: TrialState.FAILED}
    for number in range(24):
        state, steps = states[number % 4], (100, 25, 50, 10)[number % 4]
        parameters = {"train.learning_rate": 10.0 ** (-4 + (number * 7 % 24) * 3 / 23)}
        value = 3 - steps / 50 - (number * 7 % 24) / 23
        row = Trial.objects.create(
            sweep=sweep, number=number, parameters=parameters, state=state, steps=steps,
            value=value if state in (TrialState.COMPLETE, TrialState.PRUNED) else None,
            pruned_at_step=steps if state == TrialState.PRUNED else None,
        )  # fmt: skip
        TrialReport.objects.create(trial=row, step=steps // 2, value=9.0)
        TrialReport.objects.create(trial=row, step=steps, value=value)
    Trial.objects.create(sweep=sweep, number=24, parameters={"train.learning_rate": 1e-3}, state=TrialState.RUNNING)
    points = compared_points(sweep)
    assert [round(one.value or 0, 3) for one in points[:4]] == [1.0, 2.196, 1.391, 1.887]
    assert [one.parameters[HOW_FAR] for one in points[:4]] == [1.0, 0.25, 0.5, 0.1] and len(points) == 24
    found = importance(points, [*fields_of(sweep.parsed.space), SpaceField(HOW_FAR, 0.0, 1.0)])
    assert [one["path"] for one in found["fields"]][:2] == [HOW_FAR, "train.learning_rate"]
    assert (found["num_complete"], found["num_reported"]) == (6, 24)
    assert found["sentence"] == (
        "From the 24 trials that reported a value: 6 complete, 6 stopped early, 6 running, 6 failed. "
        "How far each went counts as a field of its own."
    )


def test_a_run_that_has_ended_is_not_judged_by_what_it_had_before(start: Callable[..., Sweep]) -> None:
    sweep = step(start(pruner={"name": "asha", "min": 2, "factor": 2}))
    report(sweep, 0, 1.0, 0.5, ends=False)
    sweep = step(sweep)
    report(sweep, 1, 3.0, 2.5, 0.1)
    sweep = step(sweep)
    assert (trial(sweep, 1).state, trial(sweep, 1).value) == (TrialState.COMPLETE, 0.1)


def test_a_pruned_trial_counts_the_steps_that_it_made_until_its_stop(start: Callable[..., Sweep]) -> None:
    sweep = step(start(pruner={"name": "asha", "min": 2, "factor": 2}))
    report(sweep, 0, 1.0, 0.5, ends=False)
    report(sweep, 1, 3.0, 2.5, ends=False)
    sweep = step(sweep)
    run = trial(sweep, 1).run
    assert run is not None
    write_series(run, "val/loss", [2.4] * 78, first=3)
    end(run, Status.CANCELLED)
    sweep = step(sweep)
    pruned = trial(sweep, 1)
    assert (pruned.state, pruned.pruned_at_step, pruned.value, pruned.steps) == (TrialState.PRUNED, 2, 2.5, 80)


def test_a_trial_that_is_ended_with_its_sweep_is_not_called_pruned(cast: Cast, start: Callable[..., Sweep]) -> None:
    sweep = step(start())
    run = trial(sweep, 0).run
    assert run is not None
    Run.objects.filter(pk=run.pk).update(status=Status.RUNNING)
    attempt = make_attempt(run, [])
    actions.stop_sweep(actor=cast.mate, sweep=sweep)
    step(sweep)
    attempt.refresh_from_db()
    assert stopping.outcome(run.spec, attempt.stop, [])[0] == "sweep-ended"
