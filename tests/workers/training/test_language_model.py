from __future__ import annotations

import numpy as np
import pytest
import torch

from workers.training.optimizers import make_optimizer
from workers.training.recipes import load_task
from workers.training.recipes.gpt import GPT, Shape, rotary_table, rotate
from workers.training.recipes.language_model import window_starts

CPU = torch.device("cpu")
TASK = {
    "recipe": "language-model",
    "model": {"layers": 1, "width": 8, "heads": 2, "context": 12},
    "data": {"source": "python-stdlib"},
}


def test_rows_of_a_batch_do_not_depend_on_who_asks_for_them() -> None:
    task = load_task(TASK, seed=1, device=CPU)
    inputs, targets = task.train_batch(7, slice(0, 8))
    later_inputs, later_targets = task.train_batch(7, slice(4, 8))
    assert torch.equal(inputs[4:], later_inputs)
    assert torch.equal(targets[4:], later_targets)


def test_targets_are_the_inputs_one_byte_later() -> None:
    inputs, targets = load_task(TASK, seed=1, device=CPU).train_batch(1, slice(0, 4))
    assert inputs.shape == targets.shape == (4, 12)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_steps_and_seeds_draw_different_windows() -> None:
    draws = {tuple(window_starts(seed, step, 4, 1_000_000)) for seed in (0, 1, 2**63 - 1) for step in (0, 1, 2)}
    assert len(draws) == 9


def test_the_draws_are_those_of_every_other_day() -> None:
    """A run that is resumed after an upgrade must see the batches that it would have seen."""
    assert window_starts(0, 1, 3, 1000).tolist() == [638, 101, 93]


def test_windows_start_anywhere_that_leaves_room() -> None:
    starts = window_starts(0, 1, 1000, 10)
    assert np.unique(starts).tolist() == list(range(10))


def test_no_position_sees_a_later_one() -> None:
    torch.manual_seed(0)
    model = GPT(Shape(layers=2, width=8, heads=2, context=12, vocabulary=256))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    tokens = torch.randint(256, (1, 12))
    changed = tokens.clone()
    changed[0, 6:] = 0
    same = torch.isclose(model(tokens), model(changed), atol=1e-5).all(-1)[0]
    assert same.tolist() == [True] * 6 + [False] * 6


def test_rotation_makes_products_depend_on_distance_alone() -> None:
    torch.manual_seed(0)
    turn = rotary_table(20, 8)
    query, key = (rotate(torch.randn(8).expand(1, 1, 20, 8), turn)[0, 0] for _ in range(2))
    products = query @ key.T
    assert torch.allclose(products.diagonal(3), products[3, 0].new_full((17,), products[0, 3].item()), atol=1e-4)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_only_matrices_decay(name: str) -> None:
    model = GPT(Shape(layers=1, width=8, heads=2, context=12, vocabulary=256))
    groups = make_optimizer(name, [model], [], weight_decay=0.1).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert {parameter.ndim for parameter in groups[0]["params"]} == {2}
    assert {parameter.ndim for parameter in groups[1]["params"]} == {1}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
