from __future__ import annotations

from typing import Any

import pytest
import torch

from workers.training.recipes.vit import Patches, Shape, ViT


def shape_of(**changes: Any) -> Shape:
    sizes = {"layers": 2, "width": 8, "heads": 2, "patch": 2, "channels": 1, "size": 8, "outputs": 3}
    return Shape(**{**sizes, **changes})


def moved(model: torch.nn.Module) -> Any:
    """Return ``model`` with weights of which none is zero."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def test_each_patch_is_its_own_pixels() -> None:
    patches = moved(Patches(shape_of(channels=3)))
    images = torch.rand(1, 3, 8, 8)
    changed = images.clone()
    changed[:, :, 2:4, 6:8] = 0  # row 1 of patches, the last of its four
    same = torch.isclose(patches(images), patches(changed)).all(-1)[0]
    assert [index for index, is_same in enumerate(same.tolist()) if not is_same] == [7]


def test_the_same_patch_elsewhere_is_another_input() -> None:
    model = moved(ViT(shape_of()))
    images = torch.zeros(2, 1, 8, 8)
    images[0, 0, :2, :2], images[1, 0, 4:6, 4:6] = 1, 1
    first, second = model(images)
    assert not torch.allclose(first, second)


def test_a_sample_does_not_depend_on_its_neighbours() -> None:
    model = moved(ViT(shape_of()))
    images = torch.rand(6, 1, 8, 8)
    torch.testing.assert_close(model(images)[2:3], model(images[2:3]))


def test_it_starts_with_no_opinion() -> None:
    assert not ViT(shape_of())(torch.rand(2, 1, 8, 8)).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 0}, r"task\.model\.layers is 0; accepted are numbers from 1"),
        ({"heads": 3}, r"task\.model\.heads is 3, which does not divide task\.model\.width 8"),
        ({"patch": 3}, r"task\.model\.patch is 3, .* the 8 pixels of an image's side; accepted: 1, 2, 4, 8$"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused_by_their_field(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shape_of(**changes)
