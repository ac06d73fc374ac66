from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from workers.training.recipes import gpt, resnet, tabular, vit
from workers.training.recipes.parts import keep_part, run_of

MODELS: dict[str, Any] = {
    "gpt": lambda: gpt.GPT(gpt.Shape(layers=5, width=8, heads=2, context=4, vocabulary=16)),
    "resnet": lambda: resnet.ResNet(resnet.Shape(layers=5, width=4, channels=1, size=8, outputs=3)),
    "vit": lambda: vit.ViT(vit.Shape(layers=5, width=8, heads=2, patch=4, channels=1, size=8, outputs=3)),
    "mlp": lambda: tabular.MLP(tabular.Shape(layers=5, width=8, features=6, outputs=3)),
}
INPUTS = {
    "gpt": torch.randint(16, (2, 4)),
    "resnet": torch.rand(2, 1, 8, 8),
    "vit": torch.rand(2, 1, 8, 8),
    "mlp": torch.rand(2, 6),
}


def make(name: str) -> Any:
    torch.manual_seed(0)
    model: nn.Module = MODELS[name]()
    for parameter in model.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.3)
    return model


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("num_parts", [2, 3, 5])
def test_parts_one_after_the_other_are_the_whole_model(name: str, num_parts: int) -> None:
    whole = make(name)
    parts = [make(name) for _ in range(num_parts)]
    hidden = INPUTS[name]
    for index, part in enumerate(parts):
        keep_part(part, index, num_parts)
        hidden = part(hidden)
    assert torch.equal(hidden, whole(INPUTS[name]))
    names = [held for part in parts for held, _ in part.named_parameters()]
    assert sorted(names) == sorted(dict(whole.named_parameters())), "each in one part, by its name in the whole"


def test_runs_cover_everything_once_and_the_longer_ones_come_first() -> None:
    assert [list(run_of(5, index, 3)) for index in range(3)] == [[0, 1], [2, 3], [4]]
    assert [len(run_of(2, index, 2)) for index in range(2)] == [1, 1]
