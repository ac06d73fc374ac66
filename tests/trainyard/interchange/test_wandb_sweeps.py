"""W&B's sweep.yaml as ours: what it becomes, and what is named since nothing here is like it."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.interchange.wandb_sweeps import translate
from trainyard.spec import SpecError
from trainyard.spec.document import parse_document
from trainyard.spec.sweeps import parse_sweep

FULL = """
program: train.py
method: bayes
project: vision
name: sweepdemo
metric: {goal: maximize, name: val/accuracy, target: 0.99}
run_cap: 40
early_terminate: {type: hyperband, min_iter: 3, eta: 3, strict: true}
command: ["${env}", "${interpreter}", "${program}", "--data", "${envvar:DATA}", "${args}"]
parameters:
  batch_size: {values: [16, 32, 64]}
  epochs: {value: 10}
  lr: {distribution: log_uniform_values, min: 1e-5, max: 0.1}
  hidden: {min: 8, max: 128}
  dropout: {min: 0.0, max: 0.5}
  step: {distribution: q_uniform, min: 0, max: 1, q: 0.25}
  exponent: {distribution: log_uniform, min: -3, max: 0}
  optimizer:
    parameters:
      name: {values: [adam, sgd], probabilities: [0.9, 0.1]}
      decay: {distribution: normal, mu: 0.5, sigma: 0.1}
"""


def translated(**changes: Any) -> tuple[dict[str, Any], list[str]]:
    document = {
        "program": "t.py",
        "method": "random",
        "metric": {"name": "loss"},
        "parameters": {"a": {"min": 1, "max": 4}},
    }
    return translate({**document, **changes})


def test_a_whole_sweep_becomes_one_of_ours() -> None:
    document, remarks = translate(parse_document(FULL, "sweep.yaml"))
    spec = parse_sweep(document)
    assert (spec.name, spec.project, spec.budget.trials, spec.sampler.name) == ("sweepdemo", "vision", 40, "gp")
    assert (spec.objectives[0].metric, spec.objectives[0].direction) == ("val/accuracy", "maximize")
    assert (spec.pruner.name, spec.pruner.min, spec.pruner.factor) == ("asha", 3, 3)
    space = {path.removeprefix("task.arguments.--"): one for path, one in document["space"].items()}
    assert space["batch_size"] == {"values": [16, 32, 64]}
    assert space["lr"] == {"low": 1e-5, "high": 0.1, "log": True}
    assert space["hidden"] == {"low": 8, "high": 128, "int": True}
    assert space["dropout"] == {"low": 0.0, "high": 0.5}
    assert space["step"] == {"low": 0.0, "high": 1.0, "step": 0.25}
    assert space["exponent"]["low"] == pytest.approx(0.0498, abs=1e-4) and space["exponent"]["high"] == 1.0
    assert space["optimizer.name"] == {"values": ["adam", "sgd"]}
    assert (space["optimizer.decay"]["low"], space["optimizer.decay"]["high"]) == pytest.approx((0.2, 0.8))
    task = document["base"]["task"]
    assert task["script"] == "train.py"
    assert task["arguments"][:4] == ["--data", "${DATA}", "--epochs=10", "--batch_size=16"]
    named = {one.partition(": ")[0] for one in remarks}
    assert named == {
        "metric.target", "command", "early_terminate", "parameters.optimizer",
        "parameters.optimizer.name.probabilities", "parameters.optimizer.decay.distribution",
    }  # fmt: skip


def test_what_is_not_known_is_named_and_left_out() -> None:
    document, remarks = translated(controller={"type": "local"}, entity="me", colour="blue", project="my project")
    assert "project" not in document
    assert {one.partition(":")[0] for one in remarks} == {"controller", "entity", "colour", "project", "run_cap"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"type": "hyperband", "max_iter": 27, "s": 2}, {"name": "asha", "factor": 3, "min": 3, "max": 27}),
        ({"type": "hyperband", "min_iter": 4, "eta": 2.6}, {"name": "asha", "factor": 3, "min": 4}),
        ({"type": "envelope"}, {"name": "median"}),
    ],
)
def test_early_ends_become_a_pruner(given: dict[str, Any], found: dict[str, Any]) -> None:
    document, _ = translated(early_terminate=given)
    assert document["pruner"] == found


@pytest.mark.parametrize(
    ("command", "task"),
    [
        (["${env}", "python", "${program}", "${args}"], {"script": "t.py", "arguments": ["--a=1"]}),
        (["${program}", "${args}"], {"script": "t.py", "arguments": ["--a=1"]}),
        (["python3", "-m", "pkg.train", "${args}"], {"module": "pkg.train", "arguments": ["--a=1"]}),
        (
            ["torchrun", "--nproc-per-node", "2", "${program}", "${args}"],
            {"command": ["torchrun", "--nproc-per-node", "2", "t.py"], "arguments": ["--a=1"]},
        ),
        (["./run.sh", "${args_no_hyphens}", "last"], {"command": ["./run.sh"], "arguments": ["--a=1", "last"]}),
    ],
)
def test_commands_become_tasks(command: list[str], task: dict[str, Any]) -> None:
    document, remarks = translated(command=command)
    assert document["base"]["task"] == {**task, "code": "."}
    assert any(one.startswith("command:") for one in remarks) == (command[0] in ("torchrun", "./run.sh"))


def test_a_grid_has_as_many_trials_as_points() -> None:
    document, _ = translated(method="grid", parameters={"a": {"values": [1, 2, 3]}, "b": {"values": ["x", "y"]}})
    assert document["budget"]["trials"] == 6 and document["sampler"] == "grid"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "hyperopt"}, "method"),
        ({"metric": {"goal": "minimize"}}, "metric.name"),
        ({"parameters": {}}, "parameters"),
        ({"parameters": {"a": {"value": 1}}}, "nothing varies"),
        ({"parameters": {"a": {"distribution": "beta", "a": 1, "b": 2}}}, '"beta" has no counterpart'),
        ({"parameters": {"a": {"min": 1}}}, "parameters.a"),
        ({"parameters": {"a": {"distribution": "uniform", "min": "x", "max": 2}}}, "parameters.a.min"),
        ({"parameters": {"a": {"values": [[1], [2]]}}}, "list or a map"),
        ({"parameters": {"a": {"distribution": "log_uniform_values", "min": 0, "max": 2}}}, "above 0"),
        ({"program": None}, "program"),
        ({"command": "python train.py"}, "command"),
        ({"run_cap": -1}, "run_cap"),
        ({"early_terminate": {"type": "median"}}, "early_terminate.type"),
    ],
)
def test_what_is_no_sweep_is_refused_with_its_place(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        translated(**changes)
    assert words in str(caught.value)


def test_a_small_file_that_means_a_huge_document_is_refused() -> None:
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    text += "".join(f"a{place}: &a{place} [{', '.join([f'*a{place - 1}'] * 10)}]\n" for place in range(1, 9))
    with pytest.raises(SpecError, match="more than 50,000 values"):
        translate(parse_document(text, "bomb.yaml"))
    with pytest.raises(SpecError, match="nested"):
        deep: Any = 1
        for _ in range(20):
            deep = [deep]
        translate({"method": deep})
    with pytest.raises(SpecError, match="is a map"):
        translate([1])
