"""Sequences shared among ranks, alone and with copies, shards and stages, are one process's mathematics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.workers.training.checkpoints.test_weights import assert_same, weights_of
from tests.workers.training.parity import check_parity, distance
from tests.workers.training.ranks import series, tiny_spec, train_on
from tests.workers.training.strategies.test_context import stay_with_own_keys

LIMIT = 5e-6  # relative, of each of 20 losses
GRADIENT_LIMIT = 1e-5
ROUNDED = 3e-2  # of bf16
BATCH = {"batch_size": 24, "gradient_clip": 0.25}
STAGES = {"context": 2, "pipeline": {"stages": 2}}
WAYS = [
    (2, {"context": 2}),
    (4, {"context": 4}),
    (4, {"data": 2, "context": 2}),
    (4, {"shard": 2, "context": 2}),
    (8, {"data": 2, "shard": 2, "context": 2}),
    (4, STAGES),
    (4, {"context": 2, "pipeline": {"stages": 2, "schedule": "zero-bubble"}}),
    (4, {"context": 2, "pipeline": {"stages": 2, "schedule": "interleaved"}}),
    (8, {"data": 2, **STAGES}),
    (8, {"shard": 2, **STAGES}),
]


@pytest.mark.parametrize(("world", "degrees"), WAYS, ids=str)
def test_ranks_learn_what_one_process_learns(world: int, degrees: dict[str, Any]) -> None:
    apart = {"accumulate": 2}
    check_parity(world, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, apart=apart, **BATCH)


def test_groups_of_queries_share_keys_that_go_round() -> None:
    shape = {"layers": 2, "width": 16, "heads": 4, "kv_heads": 2, "context": 16}
    check_parity(2, {"context": 2}, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, model=shape, **BATCH)


@pytest.mark.parametrize("kind", ["selective", "full"])
def test_blocks_may_be_computed_again_for_backward(kind: str) -> None:
    apart = {"activation_checkpointing": kind}
    check_parity(2, {"context": 2}, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, apart=apart, **BATCH)


def test_in_bf16_they_learn_what_one_process_learns_in_bf16() -> None:
    check_parity(2, {"context": 2}, limit=ROUNDED, precision="bf16", **BATCH)


@pytest.mark.parametrize(("world", "degrees"), [WAYS[0], WAYS[5]], ids=str)
def test_it_goes_red_when_keys_and_values_stay_where_they_are(world: int, degrees: dict[str, Any]) -> None:
    found = distance(world, degrees, setup=stay_with_own_keys, **BATCH)
    assert found.loss > 100 * LIMIT and found.gradient > 0.1, found


def test_weights_are_those_of_one_process(tmp_path: Path) -> None:
    assert_same(weights_of(tmp_path / "spread", 4, shard=2, context=2), weights_of(tmp_path / "alone"))


def test_the_same_run_again_is_equal_bit_for_bit() -> None:
    spec = tiny_spec(world=4, parallel={"context": 2, "data": 2}, accumulate=2, **BATCH)
    first, second = (series(train_on(4, spec)[0], "train/loss") for _ in range(2))
    assert first == second
