"""The recipe ``tabular``: an MLP that tells one column of a table from the others."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel

from trainyard.spec.sections import tasks as spec
from workers.training.data.samples import load_samples
from workers.training.recipes import ModelDocument
from workers.training.recipes.parts import Alike, Chain, Norm, initialize, refuse_sizes
from workers.training.recipes.sample_task import SampleTask

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
        initialize(self, (".down.weight", "head.weight", "bias"), lambda fan_in: math.sqrt(2.0 / fan_in))


class TabularTask(SampleTask):
    """Rows in, a class or a quantity out; the loss is in nats per row, or the squared error in deviations."""

    shape: Shape

    def make_model(self) -> nn.Module:
        return MLP(self.shape)

    def hidden_shape(self, num_rows: int, index: int, num_parts: int) -> torch.Size:
        """(rows, width)"""
        return torch.Size((num_rows, self.shape.width))

    def tensor_plan(self) -> dict[str, ParallelStyle]:
        """Return the cuts of the blocks: by columns, then rows; between blocks every rank holds all features."""
        return {
            "embedding": Alike(),
            "layers.*.norm": Alike(),
            "layers.*.up": ColwiseParallel(),
            "layers.*.down": RowwiseParallel(),
            "norm": Alike(),
            "head": Alike(is_last=True),
        }

    def describe(self) -> ModelDocument:
        return self.describe_with("tabular", facts=self.samples.facts, encoding=self.samples.encoding)


def load(task: spec.TabularTask, *, seed: int, device: torch.device) -> TabularTask:
    """Return the task for ``task.model`` and ``task.data`` of a spec. Raises ValueError naming the field at fault."""
    samples = load_samples(task.data)
    shape = Shape(
        layers=task.model.layers,
        width=task.model.width,
        features=samples.train_inputs.shape[1],
        outputs=len(samples.classes) or 1,
    )
    return TabularTask(shape, samples, task.data.source, seed, device)
