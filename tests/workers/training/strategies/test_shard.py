from __future__ import annotations

from typing import Any

import pytest

from tests.workers.training.messages import messages
from tests.workers.training.parity import distance
from tests.workers.training.ranks import tiny_spec, train_on

TOLERANCE = 1e-5  # relative; measured 3e-7
ROUNDED = 1e-2  # of bf16, whose numbers have 8 bits; measured 1e-3
LAYERS = 2
UNITS = LAYERS + 1  # what is gathered and reduced at once: each layer, and the embedding, norm and head together

# What two ranks learn. More of them, copies and the other axes are in tests/parity.


def keep_own_gradients() -> None:
    """Give each rank its part of its own gradients, as if those of the others were the same."""
    import torch.distributed as dist

    def own_part(output: Any, input: Any, group: Any = None, **_: Any) -> None:
        output.copy_(input.view(group.size(), -1)[group.rank()].view_as(output))

    dist.reduce_scatter_single = own_part


def watch_the_end() -> None:
    """Refuse to end with other parameters than those that the optimizer trains."""
    from torch.distributed.tensor import DTensor

    from workers.training import main

    plain = main.run_loop

    def run_loop(training: Any, *rest: Any) -> None:
        plain(training, *rest)
        trained = {id(parameter) for group in training.optimizer.param_groups for parameter in group["params"]}
        for name, parameter in training.parameters().items():
            assert isinstance(parameter, DTensor) and id(parameter) in trained, name
            assert parameter.to_local().numel() < parameter.numel(), name

    main.run_loop = run_loop


def sharded(reshard_after_forward: bool = True, **changes: Any) -> dict[str, Any]:
    """A spec for two ranks and two micro-batches."""
    parallel = {"shard": 2, "reshard_after_forward": reshard_after_forward}
    return tiny_spec(world=2, parallel=parallel, **{"steps": 2, "accumulate": 2, **changes})


@pytest.mark.parametrize("reshard_after_forward", [True, False])
def test_two_shards_learn_what_one_process_learns(reshard_after_forward: bool) -> None:
    parallel = {"shard": 2, "reshard_after_forward": reshard_after_forward}
    found = distance(2, parallel, steps=6, accumulate=2, gradient_clip=0.25)
    assert max(found) < TOLERANCE, found


def test_parity_goes_red_when_gradients_are_not_reduced() -> None:
    found = distance(2, {"shard": 2}, steps=6, accumulate=2, gradient_clip=0.25, setup=keep_own_gradients)
    assert found.gradient > 0.1 and found.loss > 100 * TOLERANCE, found


@pytest.mark.parametrize(
    ("reshard_after_forward", "gathers", "reductions"),
    [
        # In each of two micro-batches the layers are gathered for forward and again for backward.
        (True, 2 * (UNITS + LAYERS), 2 * UNITS),
        # Once a step, however many micro-batches there are.
        (False, UNITS, UNITS),
    ],
)
def test_weights_are_dropped_after_forward_or_kept_for_the_step(
    reshard_after_forward: bool, gathers: int, reductions: int
) -> None:
    sent = [message for message in messages(2, sharded(reshard_after_forward)) if message.size > 1]
    assert [message.kind for message in sent].count("all_gather") == gathers
    assert [message.kind for message in sent].count("all_reduce") == reductions
    assert len(sent) == gathers + reductions


def test_in_bf16_weights_of_layers_travel_in_half_the_bytes_and_gradients_in_full() -> None:
    sent = [message for message in messages(2, sharded(precision="bf16")) if message.size > 1]
    gathered = [message.dtype for message in sent if message.kind == "all_gather"]
    assert gathered.count("BFloat16") == 2 * 2 * LAYERS
    assert gathered.count("Float") == 2  # the embedding, norm and head
    assert {message.dtype for message in sent if message.kind == "all_reduce"} == {"Float"}


@pytest.mark.extended
def test_bf16_is_that_of_one_process() -> None:
    found = distance(2, {"shard": 2}, steps=6, accumulate=2, precision="bf16")
    assert max(found) < ROUNDED, found


@pytest.mark.parametrize("reshard_after_forward", [True, False])
def test_validation_leaves_nothing_gathered_behind(reshard_after_forward: bool) -> None:
    train_on(2, sharded(reshard_after_forward), setup=watch_the_end)
