from __future__ import annotations

import pytest
import torch

from workers.training.recipes.tabular import MLP, Shape


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    model = MLP(Shape(layers=2, width=8, features=5, outputs=2))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    rows = torch.randn(6, 5)
    torch.testing.assert_close(model(rows)[2:3], model(rows[2:3]))


def test_it_starts_with_no_opinion() -> None:
    assert not MLP(Shape(layers=2, width=8, features=5, outputs=1))(torch.randn(3, 5)).any()


@pytest.mark.parametrize("name", ["layers", "width"])
def test_a_model_of_nothing_is_refused_by_its_field(name: str) -> None:
    sizes = {"layers": 2, "width": 8, "features": 5, "outputs": 2}
    with pytest.raises(ValueError, match=rf"task\.model\.{name} is 0; accepted are numbers from 1"):
        Shape(**{**sizes, name: 0})
