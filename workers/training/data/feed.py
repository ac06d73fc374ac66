"""Which samples each step takes, and the batches of them, read ahead where that is worth a thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count

import torch

from workers.training.data.ahead import Ahead
from workers.training.data.transfer import Arrival, Reader
from workers.training.mesh import BatchShare
from workers.training.recipes import Batch, Task

DEPTH = 2  # batches that are ready before they are asked for
WORTH_A_THREAD_S = 200e-6  # below it a batch is read sooner than two threads have taken turns
NUM_READS = 3  # in a row that took longer: one may have been the first of a file


class Feed:
    """This rank's batches. A step takes the ``batch_size`` samples behind those of the step before, over all ranks.

    ``restart`` says where a training goes on, whose batch may have had another size until then.
    """

    def __init__(self, task: Task, batch_size: int, share: BatchShare, device: torch.device | None = None) -> None:
        self._read = task.train_batch
        self._device = device or torch.device("cpu")
        self._batch_size = batch_size
        self._share = share
        self._first_step, self._first_sample = 1, 0
        self._num_slow = 0
        self._ahead: Ahead[Arrival] | None = None

    def restart(self, step: int, sample: int) -> None:
        """Let ``step`` begin with ``sample``, counted from 0 over all epochs."""
        self.close()
        self._first_step, self._first_sample = step, sample

    def resize(self, batch_size: int, share: BatchShare) -> None:
        """Take another share of every batch from now on; what was read ahead is dropped. Another ``batch_size`` is that
        of all steps since the training began, or was restarted."""
        self.close()
        self._batch_size, self._share = batch_size, share

    def samples_before(self, step: int) -> int:
        """Return how many samples all ranks have taken before ``step``."""
        return self._first_sample + (step - self._first_step) * self._batch_size

    def batch(self, step: int, index: int) -> Batch:
        """Return this rank's micro-batch ``index`` of ``step``, on the task's device. Raises what reading it raised."""
        first = self.samples_before(step)
        wanted = positions(first, self._share, index)
        if self._ahead is not None:
            arrival = self._ahead.take(wanted)
            if arrival is not None:
                return arrival()
            self.close()  # another than the next one was asked for
        started = time.perf_counter()
        batch = self._read(wanted)
        self._num_slow = self._num_slow + 1 if time.perf_counter() - started > WORTH_A_THREAD_S else 0
        if self._num_slow >= NUM_READS:
            places = following(first, index, self._batch_size, self._share)
            self._ahead = Ahead(Reader(self._read, self._device).read, places, DEPTH)
        return batch

    def close(self) -> None:
        """End the thread, if there is one."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


def positions(first: int, share: BatchShare, index: int) -> slice:
    """Return which samples micro-batch ``index`` takes in the step that begins with sample ``first``."""
    rows = share.rows(index)
    return slice(first + rows.start, first + rows.stop)


def following(first: int, index: int, batch_size: int, share: BatchShare) -> Iterator[slice]:
    """Yield what comes behind micro-batch ``index`` of the step that begins with sample ``first``, without an end."""
    yield from (positions(first, share, later) for later in range(index + 1, share.accumulate))
    for start in count(first + batch_size, batch_size):
        yield from (positions(start, share, later) for later in range(share.accumulate))
