"""The recipe ``tabular``: an MLP that tells one column of a table from the others."""

import torch
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel

from trainyard.spec.sections import tasks as spec
from workers.training.data.samples import load_samples
from workers.training.recipes import ModelDocument
from workers.training.recipes.mlp import MLP, Shape
from workers.training.recipes.parts import Alike
from workers.training.recipes.sample_task import SampleTask


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
