"""Products with a pipeline: each axis cuts what the others have left, and the mathematics stays that of one process."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.workers.training.parity import SHAPE, check_parity, distance
from tests.workers.training.ranks import series, tiny_spec, train_on

LIMIT = 1e-5  # relative, of each of 20 losses and of first gradients; measured up to 2e-6
BATCH = {"batch_size": 24, "gradient_clip": 0.25}


def product(schedule: str = "1f1b", **degrees: int) -> tuple[int, dict[str, Any]]:
    """Return the number of ranks and the ``parallel`` part, with two stages."""
    return 2 * math.prod(degrees.values()), {"pipeline": {"stages": 2, "schedule": schedule}, **degrees}


def keep_the_gradients_of_each_copy() -> None:
    from workers.training.strategies import data_parallel

    data_parallel.average_gradients = lambda parts, group: None


def keep_the_gradients_of_each_shard() -> None:
    """Cut nothing, so that ranks which would be shards are copies that nobody averages."""
    from workers.training.strategies import shard

    shard.apply = lambda *arguments, **named: None


def send_each_tensor_rank_the_same_piece() -> None:
    """Let the ranks of a stage take the first piece of the sequence from its like in the stage before."""
    import torch.distributed as dist

    from workers.training.strategies import pipeline

    plain = pipeline.make_passes

    def made(*arguments: Any, **named: Any) -> Any:
        passes = plain(*arguments, **named)
        mesh = arguments[0].device_mesh
        for stage in passes._stages:
            retrieve = stage._retrieve_recv_activations

            def mixed(chunk: int, retrieve: Any = retrieve) -> Any:
                (hidden,) = retrieve(chunk)
                group = mesh.get_group("tensor")
                dist.broadcast(hidden.detach(), group=group, group_src=0)
                return (hidden,)

            stage._retrieve_recv_activations = mixed
        return passes

    pipeline.make_passes = made


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble", "layer-wise"])
@pytest.mark.parametrize("axis", ["data", "shard", "tensor"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_axes_learn_what_one_process_learns(axis: str, schedule: str, accumulate: int) -> None:
    world, parallel = product(schedule, **{axis: 2})
    check_parity(world, parallel, limit=LIMIT, apart={"accumulate": accumulate}, **BATCH)


@pytest.mark.parametrize("axes", [("data", "tensor"), ("shard", "tensor"), ("data", "shard")])
@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
def test_three_axes_learn_what_one_process_learns(axes: tuple[str, str], schedule: str) -> None:
    world, parallel = product(schedule, **dict.fromkeys(axes, 2))
    assert world == 8
    check_parity(world, parallel, limit=LIMIT, **BATCH)


def test_four_axes_learn_what_one_process_learns() -> None:
    world, parallel = product("1f1b", data=2, shard=2, tensor=2)
    assert world == 16
    check_parity(world, parallel, limit=LIMIT, **BATCH)


def test_shards_keep_their_weights_gathered_whatever_is_asked() -> None:
    world, parallel = product("zero-bubble", shard=2)
    check_parity(world, {**parallel, "reshard_after_forward": False}, limit=LIMIT, **BATCH)


@pytest.mark.parametrize("axis", ["data", "shard", "tensor"])
def test_the_same_run_again_is_equal_bit_for_bit(axis: str) -> None:
    world, parallel = product("zero-bubble", **{axis: 2})
    spec = tiny_spec(world=world, parallel=parallel, model=SHAPE, **BATCH)
    first, second = (series(train_on(world, spec)[0], "train/loss") for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("axis", "leave_out"),
    [
        ("data", keep_the_gradients_of_each_copy),
        ("shard", keep_the_gradients_of_each_shard),
        ("tensor", send_each_tensor_rank_the_same_piece),
    ],
)
def test_it_goes_red_when_a_reduction_is_left_out(axis: str, leave_out: Any) -> None:
    world, parallel = product(**{axis: 2})
    found = distance(world, parallel, setup=leave_out, **BATCH)
    assert found.loss > 100 * LIMIT and found.gradient > 1000 * LIMIT, found
