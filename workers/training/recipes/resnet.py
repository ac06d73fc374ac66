"""A ResNet of basic blocks, whose norms look at one sample alone: its result does not depend on its neighbours.

Sources: He et al. 2016 (basic blocks, with the norm before: "Identity Mappings", figure 1b), Wu and He 2018 (group
normalisation, equation 7). Batch normalisation would make each way to cut a batch another mathematics.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from workers.training.recipes.parts import Chain, initialize, refuse_sizes, run_of

SMALLEST_SIDE = 4  # pixels below which an image is not halved
MOST_RUNS = 4  # of blocks of one width, as in all of the paper's
NORM_GROUPS = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model. Blocks come in runs; each run but the first halves the side and doubles the width, as often
    as the image allows. Raises ValueError, naming the field of the spec."""

    layers: int
    width: int
    channels: int
    size: int
    outputs: int

    def __post_init__(self) -> None:
        refuse_sizes(self, "layers", "width")

    @property
    def num_runs(self) -> int:
        return min(self.layers, 1 + max(0, (self.size // SMALLEST_SIDE).bit_length() - 1), MOST_RUNS)

    def run_of(self, layer: int) -> int:
        """Return the run that ``layer`` is in: as many layers in each, the longer ones first."""
        return next(run for run in range(self.num_runs) if layer in run_of(self.layers, run, self.num_runs))

    def flow(self, layer: int) -> tuple[int, int]:
        """Return width and side of what flows out of ``layer``; of -1, what flows into the first."""
        run = self.run_of(layer) if layer >= 0 else 0
        return self.width * 2**run, -(-self.size // 2**run)


class GroupNorm(nn.GroupNorm):
    """Group normalisation in the type of what it normalises: gains that ranks share arrive in that of the kernels."""

    def __init__(self, width: int) -> None:
        super().__init__(math.gcd(NORM_GROUPS, width), width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.group_norm(x, self.num_groups, self.weight.to(x.dtype), self.bias.to(x.dtype), self.eps)


class ResNetBlock(nn.Module):
    """Two convolutions beside the way that changes nothing, or only width and side: (batch, before, side, side) ->
    (batch, width, side / stride, side / stride)."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first_norm = GroupNorm(before)
        self.first = nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False)
        self.second_norm = GroupNorm(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.shortcut = None if (before, stride) == (width, 1) else nn.Conv2d(before, width, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        changed = self.first(F.relu(self.first_norm(x)))
        changed = self.second(F.relu(self.second_norm(changed)))
        output: torch.Tensor = (x if self.shortcut is None else self.shortcut(x)) + changed
        return output


class ImageHead(nn.Module):
    """The mean over all places, then the outputs: (batch, width, side, side) -> (batch, outputs)."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.outputs = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.outputs(F.relu(x).mean((2, 3)))
        return outputs


class ResNet(Chain):
    """Images (batch, channels, size, size) -> (batch, outputs); a part of it, as a pipeline stage holds one
    (``parts.py``), takes and gives what flows between blocks."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Conv2d(shape.channels, shape.width, 3, padding=1, bias=False)
        self.layers = nn.ModuleDict({str(layer): make_block(shape, layer) for layer in range(shape.layers)})
        width, _ = shape.flow(shape.layers - 1)
        self.norm = GroupNorm(width)
        self.head = ImageHead(width, shape.outputs)
        # He et al. 2015, equation 10.
        zeros = (".second.weight", "head.outputs.weight", "outputs.bias")
        initialize(self, zeros, lambda fan_in: math.sqrt(2.0 / fan_in))


def make_block(shape: Shape, layer: int) -> ResNetBlock:
    before, _ = shape.flow(layer - 1)
    width, _ = shape.flow(layer)
    return ResNetBlock(before, width, stride=1 if width == before else 2)
