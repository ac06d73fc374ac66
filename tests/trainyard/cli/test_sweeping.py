"""`trainyard sweep`, and `trainyard.sweep` in a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from django.utils import timezone

import trainyard as sdk
from runs.models import Run, Sweep, Trial
from runs.sweeps.actions import start_sweep
from runs.sweeps.stepping import Stepper
from tests.cast import Cast, make_node, spec
from tests.series import write_series
from tests.trainyard.command import Trainyard
from trainyard.interchange.optuna_storage import read_study
from trainyard.rest.client import Client
from trainyard.rest.connection import ApiError

pytestmark = pytest.mark.usefixtures("valkey")
SPACE = {"train.learning_rate": {"low": 0.001, "high": 0.1, "log": True}}


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(spec()))
    sweep = {"name": "search", "base": "base.yaml", "space": SPACE, "objective": {"metric": "val/loss"},
             "budget": {"trials": 3, "ahead": 0}, "sampler": "random"}  # fmt: skip
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({"sweep": sweep}))
    return str(tmp_path / "sweep.yaml")


def test_a_sweep_is_previewed_started_listed_shown_and_stopped(
    trainyard: Trainyard, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = trainyard("sweep", file, "--preview")
    assert ahead.code == 0 and ahead.out.startswith("trials     3 (3 runs of 1 slots)")
    assert not Sweep.objects.exists()
    started = trainyard("sweep", file)
    assert started.code == 0, started.err
    sweep = Sweep.objects.get(pk=started.out.strip())
    Stepper().step_all(timezone.now())
    assert sweep.pk in trainyard("sweeps").out
    assert "RUNNING" in trainyard("sweep", "show", sweep.pk).out
    with monkeypatch.context() as older:
        call = Client.call
        older.setattr(Client, "call", lambda client, method, path, kind, **request: call(
            client, method, path.replace("importance", "none"), kind, **request))  # fmt: skip
        shown = trainyard("sweep", "show", sweep.pk)
        assert shown.code == 0 and "learning_rate" in shown.out, "an older server knows no importance"
    assert json.loads(trainyard("sweep", "show", sweep.pk, "--json").out)["trials"][0]["run"] == Run.objects.get().pk
    tried = trainyard("sweep", "try", sweep.pk, "--set", "train.learning_rate=0.5")
    assert (tried.code, tried.out.strip()) == (0, "1")
    assert trainyard("sweep", "promote", sweep.pk, "0").code == 1
    for verb, words in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPING")):
        assert trainyard("sweep", verb, sweep.pk).err.startswith(words)


def test_a_sweep_with_two_objectives_shows_both_the_front_and_why_a_trial_failed(
    trainyard: Trainyard, cast: Cast
) -> None:
    objectives = [{"metric": "val/loss"}, {"metric": "val/accuracy", "direction": "maximize"}]
    sweep = start_sweep(actor=cast.mate, document={
        "name": "two", "base": spec(), "space": SPACE, "objective": objectives, "budget": {"trials": 6},
    })  # fmt: skip
    for number, values in enumerate([[0.5, 0.875], [0.25, 0.625], [0.75, 0.125]]):
        Trial.objects.create(
            sweep=sweep, number=number, state="COMPLETE", value=values[0], values=values,
            parameters={"train.learning_rate": 0.01}, ended_at=timezone.now(),
        )  # fmt: skip
    run = Run.objects.create(project=sweep.project, name="r", spec=spec(), status="SUCCEEDED", ended_at=timezone.now())
    write_series(run, "eval_loss", [1.0])
    Trial.objects.create(sweep=sweep, number=3, run=run, state="RUNNING", parameters={"train.learning_rate": 0.02})
    Stepper().step_all(timezone.now())
    shown = trainyard("sweep", "show", sweep.pk)
    assert shown.code == 0, shown.err
    assert "val/loss" in shown.out and "val/accuracy" in shown.out and "0.875" in shown.out
    assert "front      trials 1, 0" in shown.out
    assert "trial 3 FAILED: val/loss was never reported. It logged eval_loss." in shown.out
    assert "Importance needs at least 4 trials with a value; there are 3." in shown.out


def test_a_sweep_is_exported_into_a_storage_of_optuna(trainyard: Trainyard, cast: Cast, tmp_path: Path) -> None:
    sweep = start_sweep(actor=cast.mate, document={
        "name": "mine", "base": spec(), "space": SPACE, "objective": {"metric": "val/loss"}, "budget": {"trials": 3},
    })  # fmt: skip
    now = timezone.now()
    Trial.objects.create(
        sweep=sweep, number=0, state="COMPLETE", value=0.5, parameters={"train.learning_rate": 0.01},
        started_at=now, ended_at=now,
    )  # fmt: skip
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    ended = trainyard("sweep", "export", sweep.pk, url, "--map", "lr=train.learning_rate")
    assert (ended.code, ended.out) == (0, "mine: 1 trial\n"), ended.err
    study, unfinished = read_study(url)
    assert (study.trials[0].parameters, study.trials[0].values, unfinished) == ({"lr": 0.01}, [0.5], 0)


def test_a_bad_sweep_is_exit_code_2_with_its_path(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: x\nbase: {}\nspace: {}\nobjective: {metric: a}\nbudget: {trials: 1}\n")
    ended = trainyard("sweep", str(tmp_path / "bad.yaml"))
    assert ended.code == 2 and "space: is empty" in ended.err


def test_the_code_of_a_script_is_sent_and_its_arguments_vary(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    base = {"name": "mine", "task": {"script": "train.py", "arguments": ["--lr", "1"], "code": "."}}
    space = {"task.arguments.--lr": {"values": [0.5, 0.25]}, "task.environment.DEPTH": {"values": [2, 3]}}
    sweep = {"name": "search", "base": base, "space": space, "objective": {"metric": "loss"},
             "budget": {"trials": 9, "ahead": 0}, "sampler": "grid"}  # fmt: skip
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    started = trainyard("sweep", str(tmp_path / "sweep.yaml"))
    assert started.code == 0 and "Sending 2 files" in started.err, started.err
    Stepper().step_all(timezone.now())
    task = Run.objects.get().spec["task"]
    assert (task["arguments"], task["environment"]) == (["--lr", "0.5"], {"DEPTH": "2"})
    assert len(task["code"]["sha256"]) == 64


@pytest.mark.extended
def test_a_script_starts_a_sweep_and_reads_it(trainyard: Trainyard) -> None:
    sweep = sdk.sweep("search", base=spec(), space=SPACE, objective={"metric": "val/loss"}, trials=2, sampler="random")
    Stepper().step_all(timezone.now())
    assert (sweep.refresh().status, sweep.best, len(sweep.trials)) == ("RUNNING", None, 2), "one is queued ahead"
    assert sweep.stop().status == "STOPPING"
    with pytest.raises(ApiError, match="space"):
        sdk.sweep("search", base=spec(), space={}, objective={"metric": "val/loss"}, trials=2)


def test_a_study_waits_and_prints_sizes_and_verdict(
    trainyard: Trainyard, cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_node(cast.cluster, slots=2)
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(spec()))
    real = Client.sweep

    def trained(client: Client, sweep: str) -> object:
        """The run that is next ends at once, as fast as it has ranks."""
        Stepper().step_all(timezone.now())
        for run in Run.objects.filter(ended_at=None):
            write_series(run, "train/step_time_s", [1 / run.spec["resources"]["processes_per_node"]] * 9)
            Run.objects.filter(pk=run.pk).update(status="SUCCEEDED", ended_at=timezone.now())
        return real(client, sweep)

    monkeypatch.setattr(Client, "sweep", trained)
    ended = trainyard("scale", str(tmp_path / "base.yaml"), "--ranks", "1,2,4", "--steps", "20")
    assert ended.code == 0, ended.err
    sweep = Sweep.objects.get()
    assert f"trainyard sweep show {sweep.pk}" in ended.err
    title, one, two, four, following, verdict = ended.out.splitlines()
    assert title.split() == ["ranks", "state", "steps/s", "speed-up", "efficiency", "predicted", "lost", "to"]
    assert one.split() == ["1", "COMPLETE", "1", "1", "100", "%"]
    assert two.split()[:6] == ["2", "COMPLETE", "2", "2", "100", "%"] and "planner)" in two
    assert four.startswith("4") and "Left out: cluster local can never hold 4 ranks." in four
    assert following.startswith("8") and verdict.startswith("2 ranks train 2.0 times as fast as 1; 4 would bring")
    assert verdict in trainyard("sweep", "show", sweep.pk).out


def test_a_study_of_wrong_sizes_is_exit_code_2(trainyard: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(spec()))
    for ranks, words in (("1,1", "ranks: must be 2 to 16 different numbers"), ("1,x", "--ranks: invalid")):
        ended = trainyard("scale", str(tmp_path / "base.yaml"), "--ranks", ranks)
        assert ended.code == 2 and words in ended.err, ended.err
