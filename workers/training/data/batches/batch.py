"""A batch, and the interface that reads one."""

from __future__ import annotations

from typing import Protocol

import torch

from workers.training.data.batches.order import Rows

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets


class BatchReader(Protocol):
    """Reader of a training's batches: a recipe's task."""

    def train_batch(self, positions: slice | Rows) -> Batch:
        """Return the samples at these positions, which rise and count from 0 over all epochs, on the task's device."""
