"""Which samples each step takes, and the batches of them."""

from __future__ import annotations

from workers.training.mesh import BatchShare
from workers.training.recipes import Batch, Task


class Feed:
    """This rank's batches. A step takes the ``batch_size`` samples behind those of the step before, over all ranks.

    ``restart`` says where a training goes on, whose batch may have had another size until then.
    """

    def __init__(self, task: Task, batch_size: int, share: BatchShare) -> None:
        self._task = task
        self._batch_size = batch_size
        self._share = share
        self._first_step, self._first_sample = 1, 0

    def restart(self, step: int, sample: int) -> None:
        """Let ``step`` begin with ``sample``, counted from 0 over all epochs."""
        self._first_step, self._first_sample = step, sample

    def resize(self, batch_size: int, share: BatchShare) -> None:
        """Take another share of another batch from the next step on."""
        self._batch_size, self._share = batch_size, share

    def samples_before(self, step: int) -> int:
        """Return how many samples all ranks have taken before ``step``."""
        return self._first_sample + (step - self._first_step) * self._batch_size

    def batch(self, step: int, index: int) -> Batch:
        """Return this rank's micro-batch ``index`` of ``step``, on the task's device."""
        first, rows = self.samples_before(step), self._share.rows(index)
        return self._task.train_batch(slice(first + rows.start, first + rows.stop))
