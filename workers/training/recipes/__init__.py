"""The recipes: trainings that come with Trainyard, by the name that ``task.recipe`` gives them.

A recipe is a module with ``load(task, seed, device) -> Task``, where ``task`` is that section of the spec.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, Protocol, TypedDict

import torch
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle

from trainyard.contract.base import JsonObject
from trainyard.extras import explained
from trainyard.spec.sections.tasks import RecipeTask
from workers.training.data.batches.order import Batch, BatchReader

# Names, so that reading the registry costs no import: a rank loads the one recipe it runs.
RECIPES: dict[str, str] = {
    "language-model": "workers.training.recipes.language_model",
    "image-classifier": "workers.training.recipes.image_classifier",
    "tabular": "workers.training.recipes.tabular",
}


class ModelDocument(TypedDict):
    """``model.json``: the sizes of the model and what it was trained on."""

    recipe: str
    model: JsonObject  # the fields of the recipe's ``Shape``
    data: JsonObject
    classes: NotRequired[list[str]]
    steps: NotRequired[int]
    seed: NotRequired[int]


class Task(BatchReader, Protocol):
    """Interface of a recipe to the loop. A batch depends on the seed and on its place in the training alone, whatever
    the number of ranks."""

    unit: str  # what throughput counts: "tokens" or "samples"
    units_per_row: int
    num_train_rows: int  # of an epoch
    num_validation_rows: int
    data_digest: str
    data_facts: Mapping[str, Any]  # for the run's page: num_rows of an epoch, digest, and more
    assets: Mapping[str, Path]  # files that belong beside the weights, by their names there
    measures: tuple[str, ...]  # what ``measure`` sums up, such as ("accuracy",); reported as val/<name>
    cuts_sequence: bool  # whether of what flows between blocks a tensor-parallel rank holds a piece of dimension 1

    def make_model(self) -> nn.Module:
        """Return a fresh model on the CPU, drawn from torch's current random state."""

    def validation_batch(self, rows: slice) -> Batch:
        """Return these of the ``num_validation_rows`` rows that no training batch touches."""

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the mean loss over the rows of ``batch``, a scalar: ``criterion`` of what ``model`` makes of it."""

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the mean loss over rows, a scalar, of what the model made of their inputs."""

    def measure(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return for each of ``measures`` its sum over the rows, float64 (len(measures),)."""

    def keep_part(self, model: nn.Module, index: int, num_parts: int) -> None:
        """Drop from ``model`` what is not in part ``index`` of a pipeline; the rest keeps its names."""

    def hidden_shape(self, num_rows: int, index: int, num_parts: int) -> torch.Size:
        """Return the shape of what flows out of part ``index`` of a pipeline for so many rows, uncut."""

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        """Return the repeated blocks of ``model``: the units that are sharded, checkpointed and compiled one by one."""

    def tensor_plan(self) -> dict[str, ParallelStyle]:
        """Return how tensor-parallel ranks cut the modules, by name, a star for any child; every parameter is in it."""

    def rate_scale(self, parameter: str, optimizer: str) -> float:
        """Return by what the learning rate of a parameter is multiplied, by its name in the whole model."""

    def describe(self) -> ModelDocument:
        """Return what ``model.json`` says beside the weights: enough to build the model again."""


def load_task(task: RecipeTask, *, seed: int, device: torch.device) -> Task:
    """Return the task of a spec's ``task`` section. Raises ModuleNotFoundError with what to install for a package that
    this node lacks."""
    name = task.recipe
    try:
        loaded: Task = importlib.import_module(RECIPES[name]).load(task, seed=seed, device=device)
    except ModuleNotFoundError as error:
        if sentence := explained(error, f"The recipe {name}"):
            raise ModuleNotFoundError(sentence, name=error.name) from error
        raise
    return loaded
