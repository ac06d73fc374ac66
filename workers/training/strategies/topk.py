"""Of each gradient only the largest entries travel; the others wait on their rank until they have grown.

Source: Lin et al. 2018, "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training",
section 3.1 and algorithm 1: selection by magnitude in each tensor, and a local sum of what was not selected. The sum is
the error feedback of Stich et al. 2018, "Sparsified SGD with Memory", algorithm 1. On each rank, for a tensor of d
entries with the gradient g:

    owed = residual + g;  sent = the k entries of owed that are largest in magnitude, k = ceil(ratio d)
    residual = owed - sent;  the gradient of all = mean of sent over the ranks

Sent and residual have no entry in common, so their sum is what was owed, without rounding. Momentum correction, masking
and the warm-up of Lin et al. are not built: the optimizer sees the mean of what was sent.
"""

# Without `from __future__ import annotations`: DDP compares the annotations of its hook, and not as strings.

import math

import torch
from torch import nn
from torch._C._distributed_c10d import GradBucket

from workers.training.assembly import Assembly
from workers.training.group import all_gather_single
from workers.training.strategies.compression import Compression, Journey

INDEX = torch.int32
MOST_ENTRIES = 2**31 - 1  # of a bucket, for INDEX to reach each


def apply(assembly: Assembly) -> None:
    if assembly.parallel.compression == "topk":
        assembly.compression = TopK(assembly.parts[0], ratio=assembly.parallel.topk_ratio)


class TopK(Compression):
    """Values and indices of a bucket's largest entries are gathered from all ranks in one message, and summed there.

    The residuals take as much memory as the gradients, and are each rank's own.
    """

    def __init__(self, model: nn.Module, *, ratio: float) -> None:
        super().__init__()
        self._ratio = ratio
        self._names: dict[torch.Tensor, str] = {}
        for name, parameter in model.named_parameters():
            if parameter.numel() > MOST_ENTRIES:
                raise ValueError(
                    f"parallel.compression topk takes tensors of at most {MOST_ENTRIES:,} entries, and {name} has "
                    f"{parameter.numel():,}"
                )
            self._names[parameter] = name

    def _travel(self, bucket: GradBucket) -> Journey:
        buffer = bucket.buffer()
        values, indices = self._select(bucket)
        payload = torch.cat([values.view(torch.uint8), indices.view(torch.uint8)])
        gathered = payload.new_empty(self._world_size * payload.numel())
        self.bytes_sent += (self._world_size - 1) * payload.numel()  # around a ring: its own and those it passes on
        yield all_gather_single(gathered, payload, async_op=True)
        buffer.zero_()
        # Rank by rank: entries of one rank do not overlap, so the order of each sum, and with it the last bit, is the
        # same on every rank and every kind of device.
        for piece in gathered.view(self._world_size, -1):
            found = piece[: values.nbytes].view(buffer.dtype)
            buffer.index_add_(0, piece[values.nbytes :].view(INDEX), found)
        buffer.div_(self._world_size)

    def _select(self, bucket: GradBucket) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the entries to send and their places in the bucket; what is left becomes the residual."""
        buffer = bucket.buffer()
        values, indices = [], []
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            residual = f"residual/{self._names[parameter]}"
            start = int(gradient.storage_offset() - buffer.storage_offset())
            entries = buffer.narrow(0, start, gradient.numel())  # as they lie in memory, whatever the strides
            if residual not in self._kept:
                self._kept[residual] = torch.zeros_like(entries)
            owed = self._kept[residual].add_(entries)
            largest, places = take_largest(owed, num_kept(owed.numel(), self._ratio))
            values.append(largest)
            indices.append(places + start)
        return torch.cat(values), torch.cat(indices).to(INDEX)


def num_kept(num_entries: int, ratio: float) -> int:
    """Return how many entries of a tensor travel: at least one."""
    return min(num_entries, math.ceil(ratio * num_entries))


def take_largest(owed: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the ``count`` entries of largest magnitude out of ``owed``, which keeps zeros there. Return them with their
    places."""
    places = torch.topk(owed.abs(), count, sorted=False).indices
    largest = owed[places]
    owed[places] = 0
    return largest, places
