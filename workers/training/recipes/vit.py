"""A vision transformer: patches, learned positions, pre-norm blocks that see all patches, the mean of them at the end.

Sources: Dosovitskiy et al. 2021 (patches, equation 1), Beyer et al. 2022, "Better plain ViT baselines" (mean pooling in
place of a token for the class). Blocks are those of the language model, but for their attention.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from workers.training.recipes.gpt import Block, Projections
from workers.training.recipes.parts import Chain, Norm, initialize, refuse_sizes


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model. Raises ValueError, naming the field of the spec, for sizes that do not fit together."""

    layers: int
    width: int
    heads: int
    patch: int
    channels: int
    size: int
    outputs: int

    def __post_init__(self) -> None:
        refuse_sizes(self, "layers", "width", "heads", "patch")
        if self.width % self.heads:
            raise ValueError(f"task.model.heads is {self.heads}, which does not divide task.model.width {self.width}")
        if self.size % self.patch:
            accepted = ", ".join(str(side) for side in range(1, self.size + 1) if self.size % side == 0)
            words = f"which does not divide the {self.size} pixels of an image's side; accepted: {accepted}"
            raise ValueError(f"task.model.patch is {self.patch}, {words}")

    @property
    def num_patches(self) -> int:
        return (self.size // self.patch) ** 2


class Patches(nn.Module):
    """Images (batch, channels, size, size) -> (batch, patches, width): each patch, and where it is."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.side = shape.patch
        self.pixels = nn.Linear(shape.channels * shape.patch**2, shape.width, bias=False)
        self.places = nn.Parameter(torch.empty(shape.num_patches, shape.width))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pixels = F.pixel_unshuffle(images, self.side)  # (batch, channels * side**2, rows, columns)
        embedded: torch.Tensor = self.pixels(pixels.flatten(2).transpose(1, 2))
        return embedded + self.places


class Attention(Projections):
    """Self-attention among all patches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, patches, width) to the same shape."""
        query, key, value = (self._heads(one(x)) for one in (self.query, self.key, self.value))
        output: torch.Tensor = self.output(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return output


class PatchHead(nn.Module):
    """The mean over the patches, then the outputs: (batch, patches, width) -> (batch, outputs)."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.outputs = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.outputs(x.mean(1))
        return outputs


class ViT(Chain):
    """Images (batch, channels, size, size) -> (batch, outputs); a part of it, as a pipeline stage holds one
    (``parts.py``), takes and gives what flows between blocks: (batch, patches, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = Patches(shape)
        blocks = (Block(Attention(shape.width, shape.heads, shape.heads), shape.width) for _ in range(shape.layers))
        self.layers = nn.ModuleDict({str(index): block for index, block in enumerate(blocks)})
        self.norm = Norm(shape.width, bias=False)
        self.head = PatchHead(shape.width, shape.outputs)
        zeros = ("attention.output.weight", "mlp.down.weight", "outputs.weight", "outputs.bias")
        # Places are as large as what patches are embedded into: smaller ones drown in it.
        initialize(self, zeros, lambda fan_in: 1.0 / math.sqrt(fan_in), normal=("places",))
