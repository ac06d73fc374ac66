"""A sweep of 10,000 trials: its steps, its proposals and its page stay quick."""

from __future__ import annotations

import time

import pytest
from django.utils import timezone

from runs.models import Sweep, Trial
from runs.sweeps import actions
from runs.sweeps.analysis.best import best_over_trials
from runs.sweeps.reading import summary_of, sweep_trials, trial_points
from runs.sweeps.stepping import Stepper
from tests.cast import Cast, spec
from trainyard.contract.statuses import TrialState

TRIALS = 10_000
SPACE = {f"train.{name}": {"low": 1e-4, "high": 1e-1, "log": True} for name in ("learning_rate", "weight_decay")} | {
    "task.model.width": {"low": 16, "high": 256, "int": True, "step": 16},
    "train.gradient_clip": {"low": 0.1, "high": 2.0},
    "train.seed": {"low": 0, "high": 99, "int": True},
    "train.optimizer": {"values": ["adamw", "sgd"]},
}


@pytest.fixture
def sweep(cast: Cast, valkey: object) -> Sweep:
    made = actions.start_sweep(
        actor=cast.mate,
        document={
            "name": "long",
            "base": spec(),
            "space": SPACE,
            "objective": {"metric": "val/loss"},
            "budget": {"trials": 2 * TRIALS, "parallel": 1},
            "sampler": "tpe",
            "pruner": "asha",
        },
    )
    now = timezone.now()
    Trial.objects.bulk_create(
        Trial(
            sweep=made, number=number, state=TrialState.COMPLETE, value=(number * 7919 % 1000) / 1000, started_at=now,
            ended_at=now, system_attributes={"rungs": {"1": 0.5, "3": 0.4}},
            parameters={
                "train.learning_rate": 10 ** -(1 + 3 * number / TRIALS), "train.weight_decay": 0.01,
                "task.model.width": 16 + 16 * (number % 16), "train.gradient_clip": 1.0, "train.seed": number % 100,
                "train.optimizer": ("adamw", "sgd")[number % 2],
            },
        )
        for number in range(TRIALS)
    )  # fmt: skip
    return made


@pytest.mark.extended
def test_ten_thousand_trials_are_stepped_suggested_and_read_quickly(sweep: Sweep) -> None:
    stepper = Stepper()
    took: dict[str, float] = {}

    def timed(name: str) -> None:
        took[name] = round(time.process_time() - began, 3)

    began = time.process_time()
    stepper.step_all(timezone.now())  # reads all trials, imports Optuna, and launches one
    timed("first step")
    assert sweep.live_trials().count() == 1
    began = time.process_time()
    stepper.step_all(timezone.now())
    timed("idle step")
    sweep.trials.filter(number=TRIALS).update(state=TrialState.COMPLETE, value=1.0, ended_at=timezone.now())
    began = time.process_time()
    stepper.step_all(timezone.now())
    timed("step with a suggestion and a launch")
    assert sweep.trials.count() == TRIALS + 2
    began = time.process_time()
    sweep_trials(sweep, timezone.now())
    summary_of(sweep)
    best_over_trials(trial_points(sweep), "minimize")
    timed("page")
    print(took)
    assert took["idle step"] < 0.2 and took["step with a suggestion and a launch"] < 0.6 and took["page"] < 0.6, took
