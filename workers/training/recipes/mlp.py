"""A residual MLP over the numbers of a row: pre-norm blocks, as a transformer has them without attention.

Source: Gorishniy et al. 2021, "Revisiting Deep Learning Models for Tabular Data" (section 3.2), with layer
normalisation in place of that over the batch: a row's result does not depend on its neighbours.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from workers.training.recipes.parts import Chain, refuse_sizes

RATIO = 2  # hidden features of a block for each of its width


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model: ``outputs`` are classes, or 1 for a quantity. Raises ValueError, naming the field."""

    layers: int
    width: int
    features: int
    outputs: int

    def __post_init__(self) -> None:
        refuse_sizes(self, "layers", "width")


class Norm(nn.LayerNorm):
    """Layer normalisation in the type of what it normalises: gains that ranks share arrive in that of the matrices."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


class MLPBlock(nn.Module):
    """(batch, width) -> (batch, width)"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = Norm(width)
        self.up = nn.Linear(width, RATIO * width)
        self.down = nn.Linear(RATIO * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed: torch.Tensor = self.down(F.relu(self.up(self.norm(x))))
        return x + changed


class MLP(Chain):
    """Rows (batch, features) -> (batch, outputs); a part of it, as a pipeline stage holds one (``parts.py``), takes and
    gives what flows between blocks: (batch, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Linear(shape.features, shape.width)
        self.layers = nn.ModuleDict({str(index): MLPBlock(shape.width) for index in range(shape.layers)})
        self.norm = Norm(shape.width)
        self.head = nn.Linear(shape.width, shape.outputs)
        initialize(self)


@torch.no_grad()
def initialize(model: nn.Module) -> None:
    """Draw the weights. What writes into the residual stream starts at zero, so that every block starts as identity,
    and the outputs too."""
    for name, parameter in model.named_parameters():
        if name.endswith((".down.weight", "head.weight")) or name.endswith("bias"):
            parameter.zero_()
        elif parameter.ndim == 2:
            parameter.normal_(std=math.sqrt(2.0 / parameter.shape[1]))
