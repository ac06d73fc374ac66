from __future__ import annotations

import multiprocessing
import os
from typing import Any

import pytest
import torch

from tests.workers.training.parity import distance
from tests.workers.training.ranks import free_port
from workers.training.strategies.context import positions_of

TOLERANCE = 1e-5  # relative; measured 3e-7


def stay_with_own_keys() -> None:
    """Let each rank attend to the tokens that it has."""
    from workers.training.strategies import context

    context._pass_on = lambda tensor, group: lambda: torch.zeros_like(tensor)


def test_two_ranks_that_share_sequences_learn_what_one_process_learns() -> None:
    found = distance(2, {"context": 2}, steps=6, accumulate=2, gradient_clip=0.25)
    assert max(found) < TOLERANCE, found


def test_parity_goes_red_when_keys_and_values_stay_where_they_are() -> None:
    found = distance(2, {"context": 2}, steps=6, accumulate=2, gradient_clip=0.25, setup=stay_with_own_keys)
    assert found.gradient > 0.1 and found.loss > 100 * TOLERANCE, found


def test_positions_are_a_zigzag_that_covers_the_sequence_once() -> None:
    assert positions_of(0, 2, 8).tolist() == [0, 1, 6, 7]
    assert positions_of(1, 2, 8).tolist() == [2, 3, 4, 5]
    together = [place for rank in range(3) for place in positions_of(rank, 3, 24).tolist()]
    assert sorted(together) == list(range(24))
    with pytest.raises(ValueError, match=r"parallel\.context is 3, .* task\.model\.context 16"):
        positions_of(0, 3, 16)


def test_the_ring_gives_what_whole_attention_gives_forward_and_backward() -> None:
    """With torch's kernel for blocks and without."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(["tests.workers.training.ranks"])
    torch.multiprocessing.start_processes(attend_apart, (3, free_port()), 3, start_method="forkserver")


def attend_apart(rank: int, num_ranks: int, port: int) -> None:
    import torch.distributed as dist

    from workers.training.strategies import context

    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=num_ranks)
    for has_kernel in (True, False):
        context._has_kernel = lambda query, has_kernel=has_kernel: has_kernel
        compare_with_whole_attention(rank, num_ranks)
    dist.destroy_process_group()


def compare_with_whole_attention(rank: int, num_ranks: int) -> None:
    import torch.distributed as dist
    import torch.nn.functional as F

    from workers.training.strategies import context

    assert dist.group.WORLD is not None
    torch.manual_seed(0)
    shapes = ((2, 4, 24, 8), (2, 2, 24, 8), (2, 2, 24, 8))  # groups of two queries share a key
    whole: list[Any] = [torch.randn(shape).requires_grad_() for shape in shapes]
    gradient = torch.randn(shapes[0])
    query, key, value = whole
    wanted = F.scaled_dot_product_attention(
        query, key.repeat_interleave(2, 1), value.repeat_interleave(2, 1), is_causal=True
    )
    wanted.backward(gradient)
    positions = positions_of(rank, num_ranks, 24)
    own = [one.detach()[:, :, positions].clone().requires_grad_() for one in whole]
    found = context.ring_attention(*own, group=dist.group.WORLD)
    found.backward(gradient[:, :, positions])  # type: ignore[no-untyped-call]
    torch.testing.assert_close(found, wanted[:, :, positions])
    for one, other in zip(own, whole, strict=True):
        torch.testing.assert_close(one.grad, other.grad[:, :, positions])
