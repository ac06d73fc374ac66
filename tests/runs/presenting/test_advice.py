"""Advice on runs of which it is known what is wrong with them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from runs.presenting.advice import Advice, advice_of
from runs.presenting.measured import Measured
from runs.records.time_use.split import TimeUse
from trainyard.contract.base import SpecDocument


def measured(*, ranks: int = 1, num_steps: float = 100, peak: float = 1e9, **parts: float) -> Measured:
    step_time: dict[str, float | None] = {"total": sum(parts.values()), **parts}
    memory: dict[int, float | None] = dict.fromkeys(range(ranks), peak)
    found: dict[str, Any] = {
        "num_ranks": ranks, "step": 100, "num_steps": num_steps, "memory": memory, "step_time": step_time,
        "sent_bytes": None, "flops_per_step": None, "mfu": None, "units_per_second": None,
    }  # fmt: skip
    return cast(Measured, found)


def advised(
    spec: dict[str, Any] | None = None,
    found: Measured | None = None,
    time: TimeUse | None = None,
    *,
    nodes: int = 1,
    limit: float | None = None,
) -> list[Advice]:
    return advice_of(SpecDocument(spec or {}), found, time or TimeUse(productive_s=1000.0), nodes, limit)


def test_a_sound_run_is_left_alone() -> None:
    sound = measured(ranks=2, compute=0.1, communication=0.005, data=0.001, optimizer=0.01)
    assert advised({}, sound, TimeUse(productive_s=1000.0, checkpoint_s=5.0), nodes=2) == []


def test_checkpoints_too_often_are_put_so_far_apart_that_they_take_a_hundredth() -> None:
    spec = {"checkpoint": {"every_steps": 10}, "train": {"steps": 10_000}}
    [one] = advised(spec, time=TimeUse(productive_s=800.0, checkpoint_s=200.0))
    assert one.changes == {"checkpoint.every_steps": 200}
    assert one.gain == pytest.approx(0.19)
    assert one.measured == "Checkpoints took 20 % of the time, one after each 10 steps."


def test_checkpoints_are_no_further_apart_than_the_run_is_long() -> None:
    spec = {"checkpoint": {"every_steps": 1}, "train": {"steps": 4}}
    [one] = advised(spec, time=TimeUse(productive_s=80.0, checkpoint_s=20.0))
    assert one.changes == {"checkpoint.every_steps": 4}


def test_much_that_was_trained_again_asks_for_more_checkpoints() -> None:
    [one] = advised({"checkpoint": {"every_steps": 100}}, time=TimeUse(productive_s=600.0, recomputed_s=400.0))
    assert (one.changes, one.gain) == ({"checkpoint.every_steps": 50}, pytest.approx(0.2))


def test_a_small_model_on_many_nodes_is_trained_on_one() -> None:
    [one] = advised({}, measured(ranks=2, compute=0.010, communication=0.030), nodes=2)
    assert (one.changes, one.gain) == ({"resources.nodes": 1}, pytest.approx(0.5))
    assert "a step takes 20 ms there" in one.change


def test_a_model_that_is_split_over_its_nodes_is_not_put_on_one() -> None:
    for parallel in ({"shard": 2}, {"pipeline": {"stages": 2}}):
        found = measured(ranks=2, compute=0.010, communication=0.030)
        [one] = advised({"parallel": parallel}, found, nodes=2)
        assert "resources.nodes" not in one.changes


def test_of_more_and_fewer_checkpoints_the_one_that_saves_more_is_advised() -> None:
    time = TimeUse(productive_s=500.0, checkpoint_s=100.0, recomputed_s=400.0)
    [one] = advised({"checkpoint": {"every_steps": 10}, "train": {"steps": 1000}}, time=time)
    assert one.changes == {"checkpoint.every_steps": 170}


def test_a_model_that_needs_its_nodes_gets_larger_batches() -> None:
    spec = {"train": {"batch_size": 32, "steps": 300}}
    [one] = advised(spec, measured(ranks=2, compute=0.05, communication=0.02), nodes=2)
    assert one.changes == {"train.batch_size": 64, "train.steps": 150}
    assert one.gain == pytest.approx(0.02 / 0.07 / 2)


def test_waiting_for_data_is_said_without_a_field() -> None:
    [one] = advised({}, measured(compute=0.03, data=0.07))
    assert (one.changes, one.gain) == ({}, pytest.approx(0.7))


def test_activations_are_kept_where_there_is_room() -> None:
    spec, found = {"train": {"activation_checkpointing": "full"}}, measured(compute=0.1, peak=10e9)
    [one] = advised(spec, found, limit=80e9)
    assert (one.changes, one.gain) == ({"train.activation_checkpointing": "none"}, pytest.approx(0.25))
    assert advised(spec, found, limit=20e9) == []
    assert advised(spec, found, limit=None) == []


def test_three_at_most_the_largest_gain_first() -> None:
    spec = {"checkpoint": {"every_steps": 1}, "train": {"activation_checkpointing": "full"}}
    found = measured(ranks=2, compute=0.05, communication=0.05, data=0.03)
    gains = [
        one.gain for one in advised(spec, found, TimeUse(productive_s=10.0, checkpoint_s=90.0), nodes=2, limit=1e12)
    ]
    assert len(gains) == 3 and gains == sorted(gains, reverse=True)


@pytest.mark.parametrize("found", [None, measured(ranks=2, num_steps=5, compute=0.01, communication=0.09)])
def test_a_few_steps_say_nothing(found: Measured | None) -> None:
    assert advised({}, found, TimeUse(), nodes=2) == []
