"""Transfer of arrays from the host to the device, beside what it computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from workers.training.data.batches.batch import Batch

Read = Callable[[slice], Batch]
Arrival = Callable[[], Batch]  # called by the thread that computes, just before it uses the batch


def on_device(array: np.ndarray[Any, np.dtype[Any]], device: torch.device) -> torch.Tensor:
    """Return a tensor of ``array``, which nobody changes any more, on ``device``.

    To a GPU it goes from memory that is never swapped, so that the copy needs no processor; it is on its way when this
    returns, and what is computed later on the same stream waits for it.
    """
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class TransferReader:
    """Reads batches in a thread of its own, for another that computes."""

    def __init__(self, read: Read, device: torch.device) -> None:
        self._read, self._device = read, device
        # Copies on a stream of their own: on the one of the thread that computes they would wait for its kernels.
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def read(self, positions: slice) -> Arrival:
        if self._stream is None:
            batch = self._read(positions)
            return lambda: batch
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            batch = self._read(positions)
            return partial(_arrived, batch, self._stream.record_event())


def _arrived(batch: Batch, copied: torch.cuda.Event) -> Batch:
    """Let the current stream wait until the batch is there, and keep its memory until that stream is through."""
    stream = torch.cuda.current_stream()
    stream.wait_event(copied)
    for tensor in batch:
        tensor.record_stream(stream)
    return batch
