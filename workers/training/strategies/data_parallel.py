"""Synchronous data parallelism: every rank holds the model, gradients are averaged while backward still runs.

Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from workers.training.mesh import Mesh

# DDP lays its buckets anew after the first backward pass, in the order in which gradients became ready. The sums of
# three and more ranks depend on that layout in their last bits, so an attempt that resumes would differ.
PASSES_UNTIL_STABLE = 2


def apply(model: nn.Module, mesh: Mesh, group: dist.ProcessGroup | None = None) -> nn.Module:
    """Return ``model`` with its gradients averaged over all ``mesh.data`` ranks, or itself where there is one.

    ``group`` are those ranks; None for all ranks there are.
    """
    if mesh.data == 1:
        return model
    device = next(model.parameters()).device
    return DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        process_group=group,
        forward_sync_buffers=False,  # tables computed alike on each rank: nothing to send at each step
        gradient_as_bucket_view=True,  # one copy of the gradients less
    )


def without_reduction(model: nn.Module) -> AbstractContextManager[None]:
    """Return a context in which backward only adds up: for every micro-batch of a step but the last."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()


def num_throwaway_passes(model: nn.Module) -> int:
    """Return how many backward passes must come before the first step for its sums to be those of any later one."""
    return PASSES_UNTIL_STABLE if isinstance(model, DistributedDataParallel) else 0
