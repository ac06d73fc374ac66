from __future__ import annotations

import pytest
import torch

from workers.training.recipes.resnet import ResNet, Shape


def shape_of(layers: int = 4, size: int = 8, width: int = 8) -> Shape:
    return Shape(layers=layers, width=width, channels=1, size=size, outputs=3)


def test_the_width_doubles_where_the_side_halves_as_often_as_the_image_allows() -> None:
    assert [shape_of(4, 8).flow(layer) for layer in range(-1, 4)] == [(8, 8), (8, 8), (8, 8), (16, 4), (16, 4)]
    assert [shape_of(4, 32).flow(layer) for layer in range(4)] == [(8, 32), (16, 16), (32, 8), (64, 4)]


@pytest.mark.parametrize(
    ("layers", "size", "runs"),
    [(5, 8, [0, 0, 0, 1, 1]), (3, 32, [0, 1, 2]), (6, 4, [0] * 6), (5, 1024, [0, 0, 1, 2, 3]), (2, 2, [0, 0])],
)
def test_layers_come_in_runs_of_which_the_longer_are_first(layers: int, size: int, runs: list[int]) -> None:
    assert [shape_of(layers, size).run_of(layer) for layer in range(layers)] == runs


@pytest.mark.parametrize("size", [4, 7, 8, 11, 28])
def test_what_flows_out_of_each_block_has_the_shape_that_is_said(size: int) -> None:
    shape = shape_of(5, size)
    model = ResNet(shape)
    assert model.embedding is not None
    hidden = model.embedding(torch.rand(2, 1, size, size))
    for layer, block in enumerate(model.layers.values()):
        hidden = block(hidden)
        width, side = shape.flow(layer)
        assert hidden.shape == (2, width, side, side)


def test_a_sample_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(0)
    model = ResNet(shape_of())
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    images = torch.rand(6, 1, 8, 8)
    torch.testing.assert_close(model(images)[2:3], model(images[2:3]))


def test_it_starts_with_no_opinion_and_blocks_that_change_nothing() -> None:
    model = ResNet(shape_of())
    images = torch.rand(2, 1, 8, 8)
    assert not model(images).any()
    assert model.embedding is not None
    hidden = model.embedding(images)
    assert torch.equal(model.layers["0"](hidden), hidden)


@pytest.mark.parametrize("name", ["layers", "width"])
def test_a_model_of_nothing_is_refused_by_its_field(name: str) -> None:
    with pytest.raises(ValueError, match=rf"task\.model\.{name} is 0; accepted are numbers from 1"):
        shape_of(**{name: 0})
