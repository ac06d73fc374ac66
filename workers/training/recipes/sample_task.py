"""Base of recipes whose rows are samples with an answer each: a class, or a quantity."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from workers.training.data.batches.feed import on_device
from workers.training.data.batches.order import Batch, EpochOrder, Rows
from workers.training.data.storage.sample_files import Samples
from workers.training.recipes import ModelDocument
from workers.training.recipes.parts import ChainTask

VALIDATION_ROWS = 4096  # at most: enough for accuracy to a percent


class SampleTask(ChainTask):
    """Cross-entropy over classes, measured by accuracy; the squared error of a quantity, measured by r2. ``shape`` is
    the dataclass of the model's sizes.

    r2, the share of the quantity's variance that the model explains, and no mean error: it needs no unit, says the same
    of every table, and grows towards 1 as accuracy does.
    """

    unit = "samples"
    units_per_row = 1
    cuts_sequence = False

    def __init__(self, shape: Any, samples: Samples, source: str, seed: int, device: torch.device) -> None:
        self.shape, self.samples, self.source, self.seed, self.device = shape, samples, source, seed, device
        self.measures = ("accuracy",) if samples.classes else ("r2",)
        self._train_order = EpochOrder(len(samples.train_inputs), seed)
        self._validation_order = EpochOrder(len(samples.validation_inputs), seed)
        self.num_train_rows = len(samples.train_inputs)
        self.num_validation_rows = min(VALIDATION_ROWS, len(samples.validation_inputs))
        self.data_digest = samples.digest
        self.data_facts = {**samples.facts, "num_rows": self.num_train_rows, "digest": samples.digest}
        self.assets: dict[str, Path] = {}
        self._variance = 0.0 if samples.classes else self._validation_variance()

    def train_batch(self, positions: slice | Rows) -> Batch:
        """Return inputs, (rows, ...) float32, and targets: (rows,) int64 classes or float32 quantities."""
        return self._batch(self.samples.train_inputs, self.samples.train_targets, self._train_order.rows(positions))

    def validation_batch(self, rows: slice) -> Batch:
        """Return the like of the same rows at every validation."""
        found = self._validation_order.rows(rows)
        return self._batch(self.samples.validation_inputs, self.samples.validation_targets, found)

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.samples.classes:
            return F.cross_entropy(outputs.float(), targets)
        return F.mse_loss(outputs.float().squeeze(1), targets)

    def measure(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.samples.classes:
            return (outputs.argmax(1) == targets).sum(dtype=torch.float64)[None]
        errors = (outputs.double().squeeze(1) - targets.double()).square()
        # Each row's part, so that their mean is 1 - (squared errors) / (squared distances from the mean).
        return (1 - errors / self._variance).sum()[None]

    def rate_scale(self, parameter: str, optimizer: str) -> float:
        return 1.0

    def describe_with(self, recipe: str, **data: Any) -> ModelDocument:
        """Return the document of a recipe, with what it says of its data."""
        return {
            "recipe": recipe,
            "model": dataclasses.asdict(self.shape),
            "data": {"source": self.source, **data, "digest": self.samples.digest},
            "classes": list(self.samples.classes),
        }

    def inputs(self, stored: torch.Tensor) -> torch.Tensor:
        """Return what the model takes of stored rows on the device."""
        return stored

    def _batch(self, inputs: Any, targets: Any, rows: Rows) -> Batch:
        # Plain arrays over the mapped ones, and take: half the time of indexing them, in a step of a millisecond.
        stored = on_device(np.asarray(inputs).take(rows, axis=0), self.device)
        return self.inputs(stored), on_device(np.asarray(targets).take(rows, axis=0), self.device)

    def _validation_variance(self) -> float:
        rows = self._validation_order.rows(slice(0, self.num_validation_rows))
        variance = float(np.var(np.asarray(self.samples.validation_targets[rows], dtype=np.float64)))
        return variance or 1.0  # equal rows have no variance to explain: the error itself is returned
