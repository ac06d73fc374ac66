"""A sweep's document: what is refused names the path and the value."""

from __future__ import annotations

from typing import Any

import pytest

from trainyard.spec import SpecError
from trainyard.spec.sweeps import grid_size, nth_of_grid, overlay, parse_sweep, space_problems, trial_document

BASE = {"name": "digits", "task": {"recipe": "image-classifier", "data": {"source": "digits"}}, "train": {"steps": 50}}
RATE = {"train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}}


def sweep(**changes: Any) -> dict[str, Any]:
    return {
        "name": "search",
        "base": BASE,
        "space": RATE,
        "objective": {"metric": "val/loss", "direction": "minimize"},
        "budget": {"trials": 4, "parallel": 2},
        **changes,
    }


def refusal(**changes: Any) -> str:
    with pytest.raises(SpecError) as caught:
        spec = parse_sweep(sweep(**changes))
        if problems := space_problems(spec, spec.base):
            raise SpecError(problems)
    return str(caught.value)


def test_a_sweep_says_the_same_after_it_was_written_and_read() -> None:
    spec = parse_sweep(sweep(sampler="gp", pruner={"name": "asha", "min": 5}))
    assert parse_sweep(spec.as_document()) == spec
    assert (spec.sampler.name, spec.pruner.min, spec.budget.failures) == ("gp", 5, 5)
    assert space_problems(spec, spec.base) == []
    usual = parse_sweep(sweep(sampler=None, pruner=None, project=None))
    assert (usual.sampler.name, usual.pruner.name) == ("tpe", "none")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"space": {}}, "space: is empty"),
        ({"space": {"train.learning_rate": {"values": [0.1]}}}, "space.train.learning_rate.values: has one point, 0.1"),
        ({"space": {"train.learning_rate": {"low": 0.1, "high": 0.1}}}, "space.train.learning_rate: has one point"),
        ({"space": {"train.learning_rate": {"low": 0, "high": 1, "log": True}}}, "low: must be more than 0 with log"),
        ({"space": {"train.steps": {"low": 1.5, "high": 9, "int": True}}}, "space.train.steps.low: must be a whole"),
        ({"space": {"train.learning_ratee": {"low": 0, "high": 1}}}, "space.train.learning_ratee: is not a field"),
        ({"space": {"train.learning_rate": {"low": -1, "high": 1}}}, "space.train.learning_rate: must be more than 0"),
        ({"space": {"train.optimizer": {"values": ["adamw", "sgdx"]}}}, "space.train.optimizer: must be adamw, sgd"),
        ({"space": {"train.optimizer": {"low": 0, "values": ["adamw", "sgd"]}}}, "low: does not go with values"),
        ({"space": {"train": {"values": [1, 2]}, **RATE}}, "lies inside train, which varies too"),
        ({"space": {"name": {"values": ["a", "b"]}}}, "space.name: is the same for all trials"),
        ({"space": {**RATE, "train.seed": {"low": 0, "high": 9, "int": True}}, "seeds": 3}, "varies by itself"),
        ({"space": {"train.weight_decay": {"low": 0, "high": 1, "when": {"a": 1}}}}, "a does not vary"),
        ({"objective": {"metric": " "}}, "objective.metric: must be the name of a metric"),
        ({"objective": {"metric": "a", "direction": "up"}}, 'direction: must be minimize or maximize, not "up"'),
        ({"budget": {"trials": 0}}, "budget.trials: must be at least 1, not 0"),
        ({"budget": {"trials": 3, "time": "soon"}}, "budget.time: "),
        ({"sampler": "tpee"}, "sampler.name: must be tpe"),
        ({"sampler": "grid"}, "space.train.learning_rate: has no end, and a grid needs one"),
        ({"sampler": "cmaes", "space": {"train.optimizer": {"values": ["adamw", "sgd"]}}}, "cmaes takes ranges"),
        ({"objective": [{"metric": "a"}, {"metric": "b"}], "pruner": "asha"}, "pruner.name: asha takes one objective"),
        ({"pruner": "hyperband"}, "pruner.max: is required for hyperband"),
        ({"base": {"job": "x", "name": "y"}}, "base: has a job and other fields"),
        ({"base": {**BASE, "nme": 1}}, "base.nme: is not a field of a spec"),
        ({"colour": 1}, "colour: is not a field of a sweep"),
        ({"name": "a\0b"}, "name: has a NUL"),
        ({"base": {"name": "x", "task": 5}}, "base.task: "),
        ({"space": {"train.learning_rate": {"low": -1e308, "high": 1e308}}}, "is wider than numbers are"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(changes: dict[str, Any], words: str) -> None:
    assert words in refusal(**changes)


def test_conditions_may_not_go_in_a_circle() -> None:
    one = {"values": [1, 2], "when": {"train.accumulate": 1}}
    other = {"values": [1, 2], "when": {"train.seed": 1}}
    assert "goes in a circle" in refusal(space={"train.seed": one, "train.accumulate": other})


def test_a_grid_counts_and_numbers_its_points_with_conditions() -> None:
    space = parse_sweep(
        sweep(
            space={
                "train.optimizer": {"values": ["adamw", "sgd"]},
                "train.weight_decay": {"values": [0.0, 0.1, 0.2], "when": {"train.optimizer": "adamw"}},
                "train.seed": {"low": 0, "high": 1, "int": True},
            }
        )
    ).space
    points = [nth_of_grid(space, number) for number in range(8)]
    assert grid_size(space, 100) == 8
    assert len({str(point) for point in points}) == 8
    assert nth_of_grid(space, 8) is None
    assert sum("train.weight_decay" in (point or {}) for point in points) == 6


def test_arguments_and_variables_are_laid_over_a_script() -> None:
    base = {
        "name": "s",
        "task": {"script": "a.py", "arguments": ["--lr", "1", "--wd=2", "x"], "environment": {"A": "1"}},
    }
    found = overlay(
        base,
        {
            "task.arguments.--lr": 0.5,
            "task.arguments.--wd": 3,
            "task.arguments.3": "y",
            "task.arguments.--model.depth": 4,
            "task.environment.B": True,
        },
    )
    assert found["task"]["arguments"] == ["--lr", "0.5", "--wd=3", "y", "--model.depth", "4"]
    assert found["task"]["environment"] == {"A": "1", "B": "true"}
    assert base["task"]["arguments"][1] == "1", "the base stays as it was"  # type: ignore[index]


@pytest.mark.parametrize("place", ["\u00b2", "9" * 5000])
def test_a_place_of_an_argument_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(SpecError):
        overlay({"name": "s", "task": {"script": "a.py", "arguments": ["x"]}}, {f"task.arguments.{place}": "y"})


def test_a_trial_is_named_after_its_sweep_and_further_seeds_differ() -> None:
    spec = parse_sweep(sweep(seeds=2))
    one, two = (trial_document(spec, BASE, 7, {"train.learning_rate": 0.01}, seed) for seed in (0, 1))
    assert (one["name"], two["name"]) == ("search-7-0", "search-7-1")
    assert "sweep:search" in one["tags"]
    assert (one["train"]["seed"], two["train"]["seed"]) == (0, 1)
