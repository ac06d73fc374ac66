from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from tests.workers.training.parity import distance
from workers.training.recipes.gpt import GPT, Shape
from workers.training.strategies import activation_checkpointing

SHAPE = Shape(layers=4, width=64, heads=4, context=64, vocabulary=256)


class Memory(TorchDispatchMode):
    """Counts the bytes of all storages that operators have made and somebody still holds."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        made = operator(*arguments, **(named or {}))
        for tensor in tree_iter(made):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.sizes:
                    self.sizes[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self.sizes.pop, storage._cdata)
        return made

    @property
    def held_bytes(self) -> int:
        return sum(self.sizes.values())


def passed(kind: str) -> tuple[int, dict[str, torch.Tensor]]:
    """Return the bytes that a forward pass leaves for the backward pass, and the gradients that this comes to."""
    torch.manual_seed(0)
    model = GPT(SHAPE)
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    activation_checkpointing.checkpoint_blocks(model.layers.values(), kind)
    with Memory() as memory:
        loss = model(torch.arange(256).view(4, 64)).square().mean()
        held = memory.held_bytes
        loss.backward()
    return held, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_names_and_gradients_stay_what_they_are() -> None:
    _, plain = passed("none")
    for kind in ("selective", "full"):
        _, found = passed(kind)
        assert found.keys() == plain.keys()
        assert all(torch.equal(found[name], plain[name]) for name in plain), kind


def test_full_holds_less_than_selective_which_holds_less_than_none() -> None:
    held = {kind: passed(kind)[0] for kind in ("none", "selective", "full")}
    # Measured: 4.4, 3.4 and 1.3 MB, of which the ends of the model take 0.9.
    assert held["selective"] < 0.85 * held["none"]
    assert held["full"] < 0.4 * held["none"]


def test_selective_computes_no_matrix_product_twice() -> None:
    counted: list[str] = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            counted.append(str(operator))
            return operator(*arguments, **(named or {}))

    products = {}
    for kind in ("none", "selective", "full"):
        counted.clear()
        with Counting():
            passed(kind)
        products[kind] = counted.count("aten.mm.default")
    assert products["selective"] == products["none"]
    assert products["full"] == products["none"] + 5 * SHAPE.layers  # of six: nothing needs what the last one makes


@pytest.mark.parametrize("kind", ["selective", "full"])
def test_random_numbers_are_drawn_again_as_they_were(kind: str) -> None:
    """A block with dropout has the gradient of the very mask that its forward pass has used."""

    def gradient(kind: str) -> torch.Tensor:
        torch.manual_seed(0)
        block = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 1))
        activation_checkpointing.checkpoint_blocks([block], kind)
        block(torch.ones(8, 32)).sum().backward()
        found = block[0].weight.grad
        assert found is not None
        return found

    assert torch.equal(gradient(kind), gradient("none"))


@pytest.mark.parametrize(
    ("parallel", "kind"), [({"data": 2}, "full"), ({"shard": 2}, "selective"), ({"tensor": 2}, "selective")]
)
def test_spread_over_two_ranks_it_is_the_same_mathematics(parallel: dict[str, int], kind: str) -> None:
    apart = {"activation_checkpointing": kind}
    assert max(distance(2, parallel, steps=4, apart=apart)) < 1e-4
