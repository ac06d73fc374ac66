"""Trials that a pruner stopped: what they had come to, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from runs.life import stopping
from runs.models import Run, Sweep, Trial, TrialReport
from runs.sweeps import actions
from runs.sweeps.analysis.importance import importance
from runs.sweeps.analysis.trials import fields_of
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


def test_where_early_stopping_left_few_trials_all_are_compared_at_the_step_of_the_first_stop(
    start: Callable[..., Sweep],
) -> None:
    sweep = start(budget={"trials": 8})
    rates = [10.0 ** (-4 + number * 3 / 7) for number in range(8)]
    for number, rate in enumerate(rates):
        pruned = {"state": TrialState.PRUNED, "pruned_at_step": 50} if number > 2 else {"state": TrialState.COMPLETE}
        row = Trial.objects.create(
            sweep=sweep, number=number, value=9.0, parameters={"train.learning_rate": rate}, **pruned
        )
        TrialReport.objects.create(trial=row, step=50, value=number / 10)
    points, at_step = compared_points(sweep)
    assert at_step == 50 and [one.value for one in points] == [number / 10 for number in range(8)]
    found = importance(points, fields_of(sweep.parsed.space), at_step=at_step)
    assert found.fields[0].path == "train.learning_rate"
    assert found.sentence == "Few trials are complete, so 8 are compared by what they had at step 50."


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
