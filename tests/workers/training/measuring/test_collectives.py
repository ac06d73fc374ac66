from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.workers.training.ranks import Point, recipe_spec, tiny_spec, train_on
from workers.training.measuring.collectives import gathered_bytes, ring_bytes, scattered_bytes
from workers.training.recipes import load_task

STEPS = 3
LOSS = 4  # bytes: the sum of one number over two ranks
ROWS, CONTEXT, WIDTH = 8, 16, 16
FLOW = ROWS * CONTEXT * WIDTH * 4  # bytes of what flows between two blocks, of the whole batch


def sent(parallel: dict[str, Any], **changes: Any) -> list[list[float]]:
    """Return what each of two ranks has sent in each step."""
    spec = tiny_spec(
        world=2, steps=STEPS, parallel=parallel, validate_every_steps=0, checkpoint={"every_steps": 0}, **changes
    )
    return [values(points, "rank/sent_bytes") for points in train_on(2, spec)]


def values(points: list[Point], name: str) -> list[float]:
    return [value for found, _, _, value in points if found == name]


@pytest.fixture(scope="module")
def sizes() -> tuple[int, int]:
    """Bytes of the tiny model's parameters: of all, and of those in its blocks."""
    task = load_task(recipe_spec().task, seed=0, device=torch.device("cpu"))
    model = task.make_model()
    blocks = [parameter for block in task.blocks(model) for parameter in block.parameters()]
    return sum(p.nbytes for p in model.parameters()), sum(p.nbytes for p in blocks)


def test_a_ring_sends_no_byte_more_than_it_must() -> None:
    assert ring_bytes(1200, 4) == 1800 == scattered_bytes(1200, 4) + gathered_bytes(300, 4)
    assert ring_bytes(1200, 1) == scattered_bytes(1200, 1) == gathered_bytes(1200, 1) == 0


def test_ddp_sends_its_gradients_once_whatever_is_accumulated(sizes: tuple[int, int]) -> None:
    expected = [sizes[0] + LOSS] * STEPS
    assert sent({}) == [expected, expected]
    assert sent({}, accumulate=2) == [expected, expected]


def test_weights_that_are_dropped_after_forward_are_sent_a_second_time(sizes: tuple[int, int]) -> None:
    """Of each weight a rank has half, which it sends to gather; gloo reduces the whole gradient for a half of it."""
    kept, dropped = (
        sent({"data": 1, "shard": 2, "reshard_after_forward": reshard})[0][-1] for reshard in (False, True)
    )
    assert kept == pytest.approx(1.5 * sizes[0], rel=0.01)
    assert dropped == pytest.approx(1.5 * sizes[0] + sizes[1] / 2, rel=0.01)


def test_a_stage_sends_what_flows_and_the_next_one_as_much_back() -> None:
    norm = LOSS
    for rank in sent({"data": 1, "pipeline": {"stages": 2}}):
        assert rank[1:] == [FLOW + LOSS + norm] * (STEPS - 1)


def test_tensor_ranks_send_pieces_of_the_sequence_between_all_matrices() -> None:
    """Two blocks of two pairs of matrices, and the head: before each the sequence is gathered, behind each its sums are
    scattered, and backward does both the other way round; beside it, the loss and what is not cut."""
    layers, pairs, ways = 2, 2, 2
    gathered, reduced = FLOW / 2, FLOW  # gloo reduces the whole of which a rank keeps half
    between = layers * pairs * ways * (gathered + reduced)
    for rank in sent({"data": 1, "tensor": 2}):
        assert between < rank[-1] < 1.6 * between
