"""Studies from Optuna's storages and back: the same trials, directions, distributions and values."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest

from trainyard.contract.base import decode, encode
from trainyard.interchange.optuna_storage import read_study, write_study
from trainyard.interchange.study import Distribution, Study, StudyTrial, distribution_problems, renamed
from trainyard.interchange.warm_start import warm_start
from trainyard.spec import SpecError
from trainyard.spec.sweeps import parse_sweep

BASE: dict[str, Any] = {"name": "b", "task": {"recipe": "language-model"}, "train": {"steps": 50}}
NAMES = {"lr": "train.learning_rate", "width": "task.model.width", "optimizer": "train.optimizer"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The storage of a person who has used Optuna: three that completed, one pruned, one failed, one running."""
    found = f"sqlite:///{tmp_path / 'theirs.db'}"
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=found, study_name="theirs", direction="maximize")

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
        width = trial.suggest_int("width", 16, 64, step=16)
        optimizer = trial.suggest_categorical("optimizer", ["adamw", "sgd"])
        if optimizer == "sgd":
            trial.suggest_float("momentum", 0.0, 0.99)
        trial.set_user_attr("host", "node-a")
        for step in range(1, 4):
            trial.report(math.log10(rate) + step + width, step)
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 3:
            return math.nan
        return math.log10(rate) + width

    study.enqueue_trial({"lr": 1e-3, "width": 32, "optimizer": "sgd"})
    study.enqueue_trial({"lr": 1e-2, "width": 16, "optimizer": "adamw"})
    study.optimize(objective, n_trials=5)
    study.ask()
    return found


def frozen(url: str, name: str) -> list[Any]:
    study = optuna.load_study(storage=url, study_name=name)
    return [
        (
            one.number, one.state, one.values, one.params, one.distributions, one.intermediate_values, one.user_attrs,
            one.datetime_start, one.datetime_complete,
        )
        for one in study.get_trials()
        if one.state.is_finished()
    ]  # fmt: skip


def test_a_study_goes_there_and_back_unchanged(url: str, tmp_path: Path) -> None:
    study, unfinished = read_study(url)
    assert (study.name, study.directions, len(study.trials), unfinished) == ("theirs", ["maximize"], 5, 1)
    assert [one.state for one in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE", "FAILED", "COMPLETE"]
    assert distribution_problems(study) == []
    assert decode(encode(study), Study) == study, "and over REST"
    back = f"sqlite:///{tmp_path / 'back.db'}"
    write_study(back, study)
    assert read_study(back, "theirs") == (study, 0)
    assert frozen(back, "theirs") == frozen(url, "theirs")
    with pytest.raises(SpecError, match="there already"):
        write_study(back, study)


def test_names_objectives_and_values_that_are_not_finite_survive(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    choice = Distribution(kind="choice", values=[None, True, 1, 2.5, "x"])
    trial = StudyTrial(
        number=0,
        state="COMPLETE",
        parameters={"a": None},
        distributions={"a": choice},
        values=["inf", 2.0],
        reports=[(1, "nan"), (2, "-inf"), (3, 0.5)],
        started_at=1_700_000_000.25,
        ended_at=1_700_000_001.5,
    )
    study = Study(name="n", directions=["minimize", "maximize"], metrics=["val/loss", "val/accuracy"], trials=[trial])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_study(url, study)
        found, _ = read_study(url)
    assert found.metrics == study.metrics and found.directions == study.directions
    assert [one.parameters for one in found.trials] == [{"a": None}]
    assert found.trials[0].values == ["inf", 2.0] and found.trials[0].started_at == 1_700_000_000.25


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("/tmp/a.db", "sqlite://"),
        ("redis://localhost", "sqlite://"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////nowhere/at/all.db", "no file"),
        ("http://user:secret@host/x", "sqlite://"),
    ],
)
def test_what_is_no_storage_is_refused_without_its_password(url: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_study(url, "a")
    assert words in str(caught.value) and "secret" not in str(caught.value)


def test_a_study_that_is_not_there_is_named_with_those_that_are(url: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match='no study "other"; the storage has "theirs"'):
        read_study(url, "other")
    (tmp_path / "text.db").write_text("no database at all, but quite a long text " * 100)
    with pytest.raises(SpecError, match="cannot be used"):
        read_study(f"sqlite:///{tmp_path / 'text.db'}", "a")


def test_a_study_is_the_start_of_a_sweep(url: str) -> None:
    study, _ = read_study(url)
    named = renamed(study, {**NAMES, "momentum": "task.environment.MOMENTUM"})
    document, remarks = warm_start(named, BASE, metrics=["val/loss"], trials=7, name="")
    spec = parse_sweep(document)
    assert spec.budget.trials == 7 and spec.objectives[0].direction == "maximize"
    assert document["space"]["train.learning_rate"] == {"low": 1e-5, "high": 1e-1, "log": True}
    assert document["space"]["task.model.width"] == {"low": 16, "high": 64, "int": True, "step": 16}
    assert document["space"]["train.optimizer"] == {"values": ["adamw", "sgd"]}
    assert document["space"]["task.environment.MOMENTUM"]["when"] == {"train.optimizer": "sgd"}
    assert remarks == []


def test_a_parameter_with_one_value_goes_into_the_base_and_odd_ones_are_named() -> None:
    def trial(number: int, **values: Any) -> StudyTrial:
        kinds = {name: Distribution(kind="float", low=0.0, high=1.0) for name in values}
        if "train.seed" in values:
            kinds["train.seed"] = Distribution(kind="choice", values=[7])
        return StudyTrial(number=number, state="COMPLETE", parameters=values, distributions=kinds, values=[1.0])

    trials = [trial(0, **{"train.seed": 7, "train.learning_rate": 0.5}), trial(1, **{"train.seed": 7, "a.b": 0.1})]
    document, remarks = warm_start(
        Study(name="s", directions=["minimize"], trials=trials), BASE, metrics=["val/loss"], trials=1, name="x"
    )
    assert document["base"]["train"]["seed"] == 7 and "train.seed" not in document["space"]
    assert [one.split()[0] for one in remarks] == ["a.b", "train.learning_rate"]
    with pytest.raises(SpecError, match="1 objectives, and 0 metrics"):
        warm_start(Study(name="s", directions=["minimize"], trials=trials), BASE, metrics=[], trials=1, name="")
    with pytest.raises(SpecError, match="no parameter"):
        renamed(Study(name="s", directions=["minimize"], trials=trials), {"c": "d"})


def test_ranges_that_differ_become_one_that_has_all_values() -> None:
    def trial(number: int, low: float, high: float, **changes: Any) -> StudyTrial:
        one = Distribution(kind="float", low=low, high=high, **changes)
        return StudyTrial(
            number=number, state="COMPLETE", parameters={"a.b": low}, distributions={"a.b": one}, values=[1]
        )

    study = Study(name="s", directions=["minimize"], trials=[trial(0, 0.0, 1.0), trial(1, 0.5, 2.0)])
    document, _ = warm_start(study, BASE, metrics=["val/loss"], trials=1, name="")
    assert document["space"]["a.b"] == {"low": 0.0, "high": 2.0}
    odd = Study(name="s", directions=["minimize"], trials=[trial(0, 0.1, 1.0), trial(1, 0.5, 2.0, log=True)])
    with pytest.raises(SpecError, match=r"a\.b"):
        warm_start(odd, BASE, metrics=["val/loss"], trials=1, name="")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"parameters": {"a": 2.0}}, "trials.0.parameters.a"),
        ({"parameters": {"a": True}}, "trials.0.parameters.a"),
        ({"parameters": {"b": 1.0}}, "trials.0.distributions"),
        ({"values": []}, "trials.0.values"),
        ({"values": ["nan"]}, "trials.0.values"),
        ({"distributions": {"a": Distribution(kind="float", low=0.0, high=1.0, log=True)}}, "trials.0.parameters.a"),
    ],
)
def test_a_study_that_contradicts_itself_is_refused(changes: dict[str, Any], path: str) -> None:
    known: dict[str, Any] = {
        "number": 0, "state": "COMPLETE", "parameters": {"a": 0.5}, "values": [1.0],
        "distributions": {"a": Distribution(kind="float", low=0.0, high=1.0)},
    }  # fmt: skip
    study = Study(name="s", directions=["minimize"], trials=[StudyTrial(**{**known, **changes})])
    assert [one.path for one in distribution_problems(study)] == [path]
