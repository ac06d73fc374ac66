"""Shards, whatever their number and however many copies of them there are, are one process's mathematics."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.test_data_parallel import BATCH, CLIP
from tests.workers.training.messages import messages
from tests.workers.training.parity import check_parity, distance
from tests.workers.training.ranks import series, tiny_spec, train_on

LIMIT = 5e-6  # relative, of each of 20 losses; measured 2e-7
GRADIENT_LIMIT = 1e-5  # measured 5e-7
ROUNDED = 1e-2  # of bf16, whose numbers have 8 bits
HYBRID = {"data": 2, "shard": 2}
# What is reduced at once, in numbers, of a model of width 16: embedding, norm and head together, then each layer.
UNITS = [2 * 256 * 16 + 16, *2 * [(4 + 2 * 2) * 16 * 16 + 2 * 16]]


def leave_reduction_out() -> None:
    """Give each rank its part of its own gradients, as if those of the others were the same."""
    import torch.distributed as dist

    def own_part(output: Any, input: Any, group: Any = None, **_: Any) -> None:
        output.copy_(input.view(group.size(), -1)[group.rank()].view_as(output))

    dist.reduce_scatter_single = own_part  # type: ignore[attr-defined]


def leave_copies_apart() -> None:
    """Reduce among the shards of a copy, and average nothing between the copies."""
    import torch.distributed as dist

    plain = dist.all_reduce

    def all_reduce(tensor: Any, op: Any = dist.ReduceOp.SUM, **named: Any) -> Any:
        return None if op == dist.ReduceOp.AVG else plain(tensor, op, **named)

    dist.all_reduce = all_reduce


def reduce_nothing_but_the_last_micro_batch() -> None:
    """Forget what the micro-batches before have added up."""
    from workers.training.strategies import shard

    plain = shard._hold

    def forgetful(part: Any, reshard_after_forward: bool, *, is_last: bool) -> None:
        plain(part, reshard_after_forward, is_last=is_last)
        if is_last:
            for module in part.modules():
                for group in getattr(getattr(module, "_get_fsdp_state", lambda: None)(), "_fsdp_param_groups", ()):
                    for parameter in group.fsdp_params:
                        parameter.unsharded_accumulated_grad = None
                        if parameter.unsharded_param is not None:
                            parameter.unsharded_param.grad = None
                        parameter.sharded_param.grad = None

    shard._hold = forgetful


@pytest.mark.parametrize("reshard_after_forward", [True, False], ids=["zero-3", "zero-2"])
@pytest.mark.parametrize(
    ("world", "degrees"), [(2, {"shard": 2}), (3, {"shard": 3}), (4, {"shard": 4}), (4, HYBRID)], ids=str
)
def test_shards_learn_what_one_process_learns(world: int, degrees: dict[str, int], reshard_after_forward: bool) -> None:
    check_parity(
        world,
        {**degrees, "reshard_after_forward": reshard_after_forward},
        limit=LIMIT,
        gradient_limit=GRADIENT_LIMIT,
        gradient_clip=CLIP,
        apart={"accumulate": 2},
        **BATCH,
    )


@pytest.mark.parametrize(("world", "degrees"), [(2, {"shard": 2}), (4, HYBRID)], ids=str)
def test_sgd_shows_that_gradients_are_of_the_mean_loss(world: int, degrees: dict[str, int]) -> None:
    changes = {"optimizer": "sgd", "gradient_clip": 0, "learning_rate": 0.1, **BATCH}
    check_parity(world, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, **changes)


@pytest.mark.parametrize(("world", "degrees"), [(2, {"shard": 2}), (4, HYBRID)], ids=str)
def test_in_bf16_they_learn_what_one_process_learns_in_bf16(world: int, degrees: dict[str, int]) -> None:
    check_parity(world, degrees, limit=ROUNDED, precision="bf16", gradient_clip=CLIP, **BATCH)


@pytest.mark.parametrize(("world", "degrees"), [(2, {"shard": 2}), (4, HYBRID)], ids=str)
def test_it_goes_red_when_the_reduction_among_shards_is_left_out(world: int, degrees: dict[str, int]) -> None:
    found = distance(world, degrees, setup=leave_reduction_out, gradient_clip=CLIP, **BATCH)
    assert found.loss > 100 * LIMIT and found.gradient > 0.1, found


def test_it_goes_red_when_copies_are_not_averaged() -> None:
    found = distance(4, HYBRID, setup=leave_copies_apart, gradient_clip=CLIP, **BATCH)
    assert found.loss > 100 * LIMIT and found.gradient > 0.1, found


@pytest.mark.parametrize("reshard_after_forward", [True, False], ids=["zero-3", "zero-2"])
def test_it_goes_red_when_only_the_last_micro_batch_counts(reshard_after_forward: bool) -> None:
    found = distance(
        2,
        {"shard": 2, "reshard_after_forward": reshard_after_forward},
        setup=reduce_nothing_but_the_last_micro_batch,
        gradient_clip=CLIP,
        apart={"accumulate": 2},
        **BATCH,
    )
    assert found.loss > 100 * LIMIT and found.gradient > 0.1, found


def test_copies_are_averaged_once_a_step_however_many_micro_batches_there_are() -> None:
    """gloo's reduce-scatter shows as all_reduce, of twice what the copies then average: a shard."""
    spec = tiny_spec(world=4, parallel=HYBRID, steps=2, accumulate=2)
    sizes = [message.size for message in messages(4, spec) if message.kind == "all_reduce" and message.size > 1]
    among_shards, between_copies = 2 * UNITS, [size // 2 for size in UNITS]
    assert sorted(sizes) == sorted(among_shards + between_copies)


def test_the_same_run_again_is_equal_bit_for_bit() -> None:
    spec = tiny_spec(world=3, parallel={"shard": 3}, accumulate=2, **BATCH)
    first, second = (series(train_on(3, spec)[0], "train/loss") for _ in range(2))
    assert first == second
