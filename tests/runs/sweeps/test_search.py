"""Samplers: the same trials and the same seed give the same proposal, and better ones are found than by chance."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from runs.sweeps.search.plain import PastTrial, SamplerQuestion
from runs.sweeps.search.suggest import suggest
from trainyard.contract.statuses import TrialState
from trainyard.spec.sweeps import SweepSpec, parse_sweep
from trainyard.spec.sweeps.space import is_within, unit_of, value_at

SPACE: dict[str, Any] = {
    "train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "task.model.width": {"low": 8, "high": 32, "int": True, "step": 8},
}
CHOICES = {
    "train.optimizer": {"values": ["adamw", "sgd"]},
    "train.weight_decay": {"low": 0.0, "high": 0.3, "when": {"train.optimizer": "adamw"}},
}


def spec_of(sampler: str, space: dict[str, Any] = SPACE, **fields: Any) -> SweepSpec:
    return parse_sweep(
        {
            "name": "s",
            "base": {},
            "space": space,
            "objective": {"metric": "loss"},
            "budget": {"trials": 100},
            "sampler": {"name": sampler, **fields},
        }
    )


def loss(parameters: dict[str, Any]) -> float:
    """Least at a rate of 0.005 and a width of 24."""
    rate, width = math.log10(parameters["train.learning_rate"]) + 2.3, (parameters["task.model.width"] - 24) / 8
    return rate * rate + 0.3 * width * width


def search(spec: SweepSpec, number: int) -> list[PastTrial]:
    found: list[PastTrial] = []
    state: dict[str, Any] = {}
    for place in range(number):
        question = SamplerQuestion(spec, place, place, tuple(found), state)
        suggestion = suggest(question)
        assert suggestion is not None and suggestion == suggest(question), "the seed and the trials decide"
        assert is_within(spec.space, suggestion.parameters)
        state = suggestion.study_state or state
        value = loss(suggestion.parameters)
        found.append(PastTrial(place, TrialState.COMPLETE, suggestion.parameters, (value,), 9, suggestion.attributes))
    return found


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes", "random", "quasi-random", "nsga2"])
def test_a_sampler_repeats_itself_and_comes_near_the_best(sampler: str) -> None:
    found = search(spec_of(sampler, startup_trials=5, population=6), 18)
    assert min(one.values[0] for one in found) < 0.3
    assert len({str(one.parameters) for one in found}) > 9


@pytest.mark.parametrize("sampler", ["tpe", "random", "quasi-random", "nsga2"])
def test_conditional_fields_are_there_when_their_condition_is_met(sampler: str) -> None:
    found = search(spec_of(sampler, {**SPACE, **CHOICES}, startup_trials=5, population=6), 16)
    for one in found:
        assert ("train.weight_decay" in one.parameters) == (one.parameters["train.optimizer"] == "adamw")


def test_a_grid_ends() -> None:
    spec = spec_of("grid", {"train.seed": {"low": 0, "high": 2, "int": True}})
    found = [suggest(SamplerQuestion(spec, place, place, (), {})) for place in range(4)]
    assert [one.parameters["train.seed"] for one in found if one is not None] == [0, 1, 2]
    assert found[3] is None


def test_trials_that_run_keep_others_away_from_their_point() -> None:
    spec = spec_of("tpe", startup_trials=2)
    done = search(spec, 8)
    running: list[PastTrial] = []
    for place in range(8, 14):
        suggestion = suggest(SamplerQuestion(spec, place, place, (*done, *running), {}))
        assert suggestion is not None
        running.append(PastTrial(place, TrialState.RUNNING, suggestion.parameters))
    assert len({one.parameters["train.learning_rate"] for one in running}) == 6


def test_units_and_values_go_both_ways() -> None:
    for dimension in spec_of("random", {**SPACE, **CHOICES}).space.values():
        for unit in (0.01, 0.4, 0.99):
            value = value_at(dimension, unit)
            assert value_at(dimension, unit_of(dimension, value)) == pytest.approx(value)


def test_of_ten_thousand_trials_a_suggestion_reads_the_best_and_the_newest() -> None:
    spec = spec_of("tpe")
    parameters = [{"train.learning_rate": 10 ** -(1 + 3 * i / 1e4), "task.model.width": 8} for i in range(10_000)]
    past = [PastTrial(i, TrialState.COMPLETE, one, (float(i % 97),)) for i, one in enumerate(parameters)]
    suggest(SamplerQuestion(spec, 10_000, 10_000, past[:20], {}))  # Optuna is imported
    began = time.process_time()
    assert suggest(SamplerQuestion(spec, 10_000, 10_000, past, {})) is not None
    assert time.process_time() - began < 1.0


def test_cma_es_goes_on_from_its_kept_state_as_if_it_had_replayed_all_trials() -> None:
    spec = spec_of("cmaes", population=5)
    found = search(spec, 23)
    replayed = suggest(SamplerQuestion(spec, 23, 23, found, {}))
    assert replayed is not None and replayed.study_state is not None
    kept = json.loads(json.dumps(replayed.study_state))  # as the column has it
    assert kept["cma"]["generation"] == 4
    again = suggest(SamplerQuestion(spec, 23, 23, found, kept))
    assert again is not None and again.study_state is None, "nothing has changed since"
    assert again.parameters == replayed.parameters
    wider = parse_sweep({**spec.as_document(), "space": {**SPACE, "task.model.width": {"low": 8, "high": 64}}})
    assert suggest(SamplerQuestion(wider, 23, 23, found, kept)) == suggest(SamplerQuestion(wider, 23, 23, found, {}))


def test_of_ten_thousand_trials_cma_es_reads_those_of_its_generation() -> None:
    spec = spec_of("cmaes", population=9)
    rng = SamplerQuestion(spec, 0, 0, (), {}).rng()
    past = []
    for number in range(10_000):
        parameters = {"train.learning_rate": 10 ** -(1 + 3 * rng.random()), "task.model.width": 8 * rng.integers(1, 5)}
        values = (loss(parameters),)
        past.append(PastTrial(number, TrialState.COMPLETE, parameters, values, 9, {"cma_generation": number // 9}))
    kept = suggest(SamplerQuestion(spec, 10_000, 10_000, past, {}))
    assert kept is not None and kept.study_state is not None
    began = time.process_time()
    suggest(SamplerQuestion(spec, 10_000, 10_000, past, kept.study_state))
    assert time.process_time() - began < 0.1
