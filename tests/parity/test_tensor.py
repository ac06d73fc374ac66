"""Matrices cut among ranks, alone and with copies and shards beside, are one process's mathematics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parity.test_data_parallel import BATCH, CLIP
from tests.workers.training.checkpoints.test_weights import assert_same, weights_of
from tests.workers.training.parity import check_parity, distance
from tests.workers.training.ranks import series, tiny_spec, train_on
from tests.workers.training.strategies.test_tensor import leave_gains_unsummed, normalize_over_own_classes

LIMIT = 5e-6  # relative, of each of 20 losses; measured 2e-7
GRADIENT_LIMIT = 1e-5  # measured 7e-7
ROUNDED = 3e-2  # of bf16, whose numbers have 8 bits, and here are sums of rounded sums; measured 3e-4, gradients 1e-2

ALONE = [(2, {"tensor": 2}), (4, {"tensor": 4})]
COPIES = (4, {"data": 2, "tensor": 2})
SHARDS = (4, {"shard": 2, "tensor": 2})
BOTH = (8, {"data": 2, "shard": 2, "tensor": 2})


def leave_copies_apart() -> None:
    from workers.training.strategies import data_parallel

    data_parallel.average_gradients = lambda *arguments: None


def take_rows_for_the_sum() -> None:
    """Let the matrices of layers that are cut by rows give each rank its own part of the sum."""
    from torch import nn
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import RowwiseParallel

    plain = RowwiseParallel._prepare_output_fn

    def unsummed(layouts: Any, use_local: bool, module: nn.Module, outputs: DTensor, mesh: Any) -> Any:
        if isinstance(module, nn.Embedding):
            return plain(layouts, use_local, module, outputs, mesh)
        own = outputs.to_local(grad_placements=outputs.placements)
        return own.chunk(mesh.size(), 1)[mesh.get_local_rank()].contiguous()

    RowwiseParallel._prepare_output_fn = staticmethod(unsummed)


@pytest.mark.parametrize(("world", "degrees"), [*ALONE, COPIES, SHARDS, BOTH], ids=str)
def test_ranks_learn_what_one_process_learns(world: int, degrees: dict[str, int]) -> None:
    check_parity(
        world, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, gradient_clip=CLIP, apart={"accumulate": 2}, **BATCH
    )


def test_a_vocabulary_that_does_not_divide_is_cut_into_unequal_pieces() -> None:
    shape = {"layers": 2, "width": 24, "heads": 3, "context": 15}
    check_parity(3, {"tensor": 3}, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, model=shape, **BATCH)


@pytest.mark.parametrize(("world", "degrees"), [ALONE[0], COPIES, SHARDS], ids=str)
def test_sgd_shows_that_gradients_are_of_the_mean_loss(world: int, degrees: dict[str, int]) -> None:
    changes = {"optimizer": "sgd", "gradient_clip": 0, "learning_rate": 0.1, **BATCH}
    check_parity(world, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, **changes)


@pytest.mark.parametrize("kind", ["selective", "full"])
@pytest.mark.parametrize(("world", "degrees"), [ALONE[0], SHARDS], ids=str)
def test_blocks_may_be_computed_again_for_backward(world: int, degrees: dict[str, int], kind: str) -> None:
    apart = {"activation_checkpointing": kind, "accumulate": 2}
    check_parity(world, degrees, limit=LIMIT, gradient_limit=GRADIENT_LIMIT, gradient_clip=CLIP, apart=apart, **BATCH)


@pytest.mark.parametrize(("world", "degrees"), [ALONE[0], SHARDS], ids=str)
def test_in_bf16_they_learn_what_one_process_learns_in_bf16(world: int, degrees: dict[str, int]) -> None:
    check_parity(world, degrees, limit=ROUNDED, precision="bf16", gradient_clip=CLIP, **BATCH)


@pytest.mark.parametrize(("world", "degrees"), [SHARDS, (4, {"tensor": 2, "pipeline": {"stages": 2}})], ids=str)
def test_the_norm_of_gradients_spread_over_two_axes_is_that_of_one_process(world: int, degrees: dict[str, Any]) -> None:
    changes = {"gradient_clip": CLIP, "steps": 5, **BATCH}
    (alone,) = train_on(1, tiny_spec(**changes))
    spread = train_on(world, tiny_spec(world=world, parallel=degrees, **changes))
    norms = series(alone, "train/gradient_norm")
    assert series(spread[0], "train/gradient_norm") == pytest.approx(norms, rel=GRADIENT_LIMIT)


@pytest.mark.parametrize(("world", "degrees"), [SHARDS, (4, {"tensor": 2, "pipeline": {"stages": 2}})], ids=str)
def test_weights_spread_over_two_axes_are_gathered(world: int, degrees: dict[str, Any], tmp_path: Path) -> None:
    assert_same(weights_of(tmp_path / "spread", world, **degrees), weights_of(tmp_path / "alone"))


@pytest.mark.parametrize("left_out", [normalize_over_own_classes, take_rows_for_the_sum])
@pytest.mark.parametrize(("world", "degrees"), [ALONE[0], COPIES, SHARDS], ids=str)
def test_it_goes_red_when_a_sum_within_the_model_is_left_out(
    world: int, degrees: dict[str, int], left_out: Any
) -> None:
    found = distance(world, degrees, setup=left_out, gradient_clip=CLIP, **BATCH)
    assert found.loss > 100 * LIMIT and found.gradient > 0.1, found


@pytest.mark.parametrize(("world", "degrees"), [ALONE[0], COPIES], ids=str)
def test_it_goes_red_when_the_gains_of_the_norms_are_not_summed(world: int, degrees: dict[str, int]) -> None:
    """With shards there is nothing to leave out: they sum what they reduce."""
    found = distance(world, degrees, setup=leave_gains_unsummed, gradient_clip=CLIP, **BATCH)
    assert found.loss > 2 * LIMIT and found.gradient > 0.1, found


def test_it_goes_red_when_copies_are_not_averaged() -> None:
    found = distance(*COPIES, setup=leave_copies_apart, gradient_clip=CLIP, **BATCH)
    assert found.loss > 100 * LIMIT and found.gradient > 0.1, found


def test_the_same_run_again_is_equal_bit_for_bit() -> None:
    spec = tiny_spec(world=4, parallel={"tensor": 4}, model={"heads": 4}, accumulate=2, **BATCH)
    first, second = (series(train_on(4, spec)[0], "train/loss") for _ in range(2))
    assert first == second
