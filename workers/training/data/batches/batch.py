"""What a batch is, and what reads one."""

from __future__ import annotations

from typing import Protocol

import torch

from workers.training.data.batches.order import Rows

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs and targets


class BatchReader(Protocol):
    """What gives the batches of a training: a recipe's task."""

    def train_batch(self, positions: slice | Rows) -> Batch:
        """Return the samples at these positions, which rise and count from 0 over all epochs, on the task's device."""
