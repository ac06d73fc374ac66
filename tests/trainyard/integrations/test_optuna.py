"""Optuna's own studies, whose trials are steps of one run."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

import trainyard
from tests.trainyard.sdk.test_description import descriptions
from tests.trainyard.spooled import points, producers
from trainyard.integrations.optuna import TrainyardCallback

pytestmark = pytest.mark.filterwarnings("ignore")  # Optuna's own advice


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -1, 1)
    trial.suggest_categorical("kind", ["a", "b"])
    if trial.number == 2:
        raise optuna.TrialPruned
    return x**2


def test_trials_are_steps_of_one_run(spool: Path) -> None:
    study = optuna.create_study(study_name="square", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=6, callbacks=[TrainyardCallback("val/loss")])
    assert trainyard.sdk.current().name == "square"
    trainyard.finish()
    [frames] = producers(spool)
    found = points(frames)
    complete = [trial for trial in study.trials if trial.number != 2]
    assert found["val/loss", ()] == [(trial.number, trial.value) for trial in complete]
    assert sorted(found["param/x", ()]) == [(trial.number, trial.params["x"]) for trial in study.trials]
    assert found["best", ()][-1] == (5, study.best_value)
    states = [(frame.payload["step"], frame.payload["data"]) for frame in frames
              if frame.kind == "media" and frame.payload["name"] == "state"]  # fmt: skip
    assert states == [(0, b"complete"), (2, b"pruned"), (3, b"complete")]
    last = descriptions(spool)[-1]
    assert last.config["study"]["directions"] == ["minimize"]


def test_a_study_of_several_values_names_each(spool: Path) -> None:
    study = optuna.create_study(directions=["minimize", "maximize"])
    study.optimize(lambda trial: (trial.number, -trial.number), n_trials=3, callbacks=[TrainyardCallback()])
    trainyard.finish()
    found = points(producers(spool)[0])
    assert found["objective_1", ()] == [(0, 0.0), (1, -1.0), (2, -2.0)] and ("best", ()) not in found


def test_names_that_do_not_fit_the_study_are_refused(spool: Path) -> None:
    study = optuna.create_study()
    with pytest.raises(ValueError, match="2 names of metrics for 1 values"):
        study.optimize(lambda trial: 0.0, n_trials=1, callbacks=[TrainyardCallback("a", "b")])
