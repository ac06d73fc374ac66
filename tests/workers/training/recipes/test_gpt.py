from __future__ import annotations

import pytest
import torch

from tests.workers.training.parity import distance
from workers.training.recipes.gpt import GPT, Attention, Shape, rotary_table

SIZES = {"layers": 1, "width": 16, "heads": 4, "context": 8, "vocabulary": 32}
TOLERANCE = 1e-5  # relative; measured 7e-7
GROUPED = {"layers": 4, "width": 16, "heads": 4, "kv_heads": 2, "context": 16}


def test_a_group_of_queries_sees_the_keys_and_values_of_its_own_head() -> None:
    """As many heads of keys as of queries, alike within a group, are the same as one for each group."""
    torch.manual_seed(0)
    grouped, whole = Attention(Shape(**SIZES, kv_heads=2)), Attention(Shape(**SIZES))
    with torch.no_grad():
        for name in ("query", "output"):
            getattr(whole, name).weight.copy_(getattr(grouped, name).weight)
        for name in ("key", "value"):
            heads = getattr(grouped, name).weight.view(2, 4, 16)
            getattr(whole, name).weight.copy_(heads[[0, 0, 1, 1]].reshape(16, 16))
    x, turn = torch.randn(3, 8, 16), rotary_table(8, 4)
    torch.testing.assert_close(grouped(x, turn), whole(x, turn))


def test_fewer_heads_of_keys_are_fewer_weights() -> None:
    shapes = {name: parameter.shape for name, parameter in GPT(Shape(**SIZES, kv_heads=1)).named_parameters()}
    assert shapes["layers.0.attention.key.weight"] == shapes["layers.0.attention.value.weight"] == (4, 16)
    assert shapes["layers.0.attention.query.weight"] == (16, 16)


def test_heads_of_keys_that_do_not_divide_the_heads_are_refused() -> None:
    with pytest.raises(ValueError, match=r"task\.model\.kv_heads is 3, which does not divide task\.model\.heads 4"):
        Shape(**SIZES, kv_heads=3)


def test_grouped_queries_cut_by_heads_learn_what_one_process_learns() -> None:
    found = distance(2, {"tensor": 2}, steps=3, model=GROUPED, gradient_clip=0.25)
    assert max(found) < TOLERANCE, found
