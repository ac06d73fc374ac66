"""Synchronous data parallelism: every rank holds the model, gradients are averaged while backward still runs.

Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from workers.training.assembly import Assembly
from workers.training.measuring.collectives import ring_bytes
from workers.training.mesh import Mesh, copies_of
from workers.training.strategies.compression import Compression, cut

# DDP lays its buckets anew after the first backward pass, in the order in which gradients became ready. The sums of
# three and more ranks depend on that layout in their last bits, so an attempt that resumes would differ.
PASSES_UNTIL_STABLE = 2
BUCKET_BYTES = 25 * 2**20


def apply(assembly: Assembly) -> None:
    """Average the gradients of all copies of the model: as DDP does where ranks hold whole models. By hand where
    weights are cut, which DDP takes for whole ones, or a backward pass is cut in two, which does not run its hooks."""
    mesh, parts = assembly.mesh, assembly.parts
    if assembly.synchronization_kind != "every-step":  # gradients and loss stay each rank's own
        assembly.start_sum = assembly.own_loss
    elif mesh.num_copies == mesh.world_size:
        (model,) = parts
        replica = assembly.replica = replicate(model, mesh, compression=assembly.compression)
        assembly.num_throwaways = num_throwaway_passes(replica)
        assembly.without_reduction = partial(without_reduction, replica)
    elif mesh.shard == 1:  # shards average between the copies themselves
        assert assembly.device_mesh is not None
        group = copies_of(assembly.device_mesh, mesh).get_group()
        assembly.after_backward.append(lambda: average_gradients(parts, group))


def replicate(model: nn.Module, mesh: Mesh, *, compression: Compression | None) -> nn.Module:
    """Return ``model`` with its gradients averaged over all copies on the ``mesh``, which are all ranks, or itself
    where there is one. ``compression`` is how gradients travel between them."""
    if mesh.num_copies == 1:
        return model
    device = next(model.parameters()).device
    replica = DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        forward_sync_buffers=False,  # tables computed alike on each rank: nothing to send at each step
        gradient_as_bucket_view=True,  # one copy of the gradients less
    )
    if compression is not None:
        compression.attach(replica)
    return replica


def without_reduction(model: nn.Module) -> AbstractContextManager[None]:
    """Return a context in which backward only adds up: for every micro-batch of a step but the last."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()


def num_throwaway_passes(model: nn.Module) -> int:
    """Return how many backward passes must come before the first step for its sums to be those of any later one."""
    return PASSES_UNTIL_STABLE if isinstance(model, DistributedDataParallel) else 0


def sent_bytes(model: nn.Module, mesh: Mesh) -> int:
    """Return what each rank sends in a step for DDP to average the gradients of ``model``."""
    return ring_bytes(sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad), mesh.num_copies)


def average_gradients(parts: Iterable[nn.Module], group: dist.ProcessGroup) -> None:
    """Average the gradients of ``parts`` over the ranks of ``group``, in place and once backward is done: for passes
    that DDP cannot follow. Of what is spread over further axes each rank averages the piece that it holds."""
    num_ranks = dist.get_world_size(group)
    if num_ranks == 1:
        return
    travelling = []
    for bucket in gradient_buckets(parts):
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket]).div_(num_ranks)
        travelling.append((bucket, flat, dist.all_reduce(flat, group=group, async_op=True)))
    for bucket, flat, work in travelling:
        work.wait()
        cut(flat, bucket)


def gradient_buckets(parts: Iterable[nn.Module]) -> Iterator[list[torch.Tensor]]:
    """Yield the gradients of ``parts``, this rank's pieces, in the same groups on each rank; none but a single
    gradient is larger than BUCKET_BYTES, which is what a copy costs."""
    bucket: list[torch.Tensor] = []
    num_bytes = 0
    for parameter in (parameter for part in parts for parameter in part.parameters()):
        if parameter.grad is None:
            continue
        gradient = parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
        if bucket and num_bytes + gradient.nbytes > BUCKET_BYTES:
            yield bucket
            bucket, num_bytes = [], 0
        bucket.append(gradient)
        num_bytes += gradient.nbytes
    if bucket:
        yield bucket
