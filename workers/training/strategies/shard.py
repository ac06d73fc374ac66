"""Sharded data parallelism: each rank keeps a part of every weight, gradient and optimizer state.

Before a block computes, its weights are gathered; its gradients are reduced to the parts right after its backward.
With several copies of the model as well (hybrid), weights are cut among the ranks of a copy and gradients are then
averaged between the copies.

Sources: Rajbhandari et al. 2020, "ZeRO" (stages 2 and 3, section 5); Zhao et al. 2023, "PyTorch FSDP" (hybrid: 3.2.2).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from workers.training.assembly import Assembly
from workers.training.mesh import COPIES, copies_of


def apply(assembly: Assembly) -> None:
    if assembly.mesh.shard == 1:
        return
    # A pipeline keeps gathered weights for all its microbatches: it would gather them anew for each, and a backward
    # pass cut in two looks for whole weights before it has gathered any.
    reshard = assembly.parallel.reshard_after_forward and assembly.plan is None
    assert assembly.device_mesh is not None
    copies_and_shards = assembly.device_mesh["shard"]
    if assembly.mesh.num_copies > 1:
        copies = copies_of(assembly.device_mesh, assembly.mesh)
        (name,) = copies.mesh_dim_names or ()
        if name == COPIES:  # several axes as one, of which torch's mesh itself does not know
            copies_and_shards = DeviceMesh._concatenate([copies, copies_and_shards])
        else:
            copies_and_shards = assembly.device_mesh[name, "shard"]
    for part in assembly.parts:
        blocks, dtype = assembly.task.blocks(part), assembly.precision.dtype
        shard_part(part, blocks, copies_and_shards, reshard_after_forward=reshard, dtype=dtype)
    if assembly.plan is None:  # a pipeline's stages reduce by themselves
        (part,) = assembly.parts
        assembly.without_reduction = partial(without_reduction, part, reshard_after_forward=reshard)


def shard_part(
    part: nn.Module,
    blocks: Sequence[nn.Module],
    copies_and_shards: DeviceMesh,
    *,
    reshard_after_forward: bool,
    dtype: torch.dtype | None = None,
) -> None:
    """Cut ``part`` among the ranks of the last axis of ``copies_and_shards``: ``blocks`` one by one, then what is left
    of it as the outermost. Gradients become the mean over both axes.

    ``dtype`` is what the forward pass computes in (None: that of the weights); gradients are reduced in float32.
    """
    policy = MixedPrecisionPolicy(
        # Autocast would round the weights of the blocks to this anyway: they travel rounded, in half the bytes.
        param_dtype=dtype,
        reduce_dtype=torch.float32,
        # Activations between blocks keep their type: autocast says what is computed in which type, here as elsewhere.
        cast_forward_inputs=False,
    )
    for block in blocks:
        fully_shard(block, mesh=copies_and_shards, reshard_after_forward=reshard_after_forward, mp_policy=policy)
    # Kept whole after forward in either way: backward begins with it. And in full precision: the embedding's rows
    # begin the residual stream, which autocast leaves in float32.
    fully_shard(part, mesh=copies_and_shards, reshard_after_forward=False)
    part.register_forward_hook(_drop_after_validation)


@contextmanager
def without_reduction(part: nn.Module, *, reshard_after_forward: bool) -> Iterator[None]:
    """Let backward only add up: the context of every micro-batch of a step but the last.

    Who keeps weights whole between forward and backward has room for them, and for whole gradients, between
    micro-batches: weights are gathered and gradients are reduced once a step (ZeRO-2). Who drops them has not, and a
    whole gradient would cost what dropping the weights has saved: gradients are reduced to their parts in each
    micro-batch, and only the average between copies waits for the last (ZeRO-3).
    """
    _hold(part, reshard_after_forward, is_last=False)
    try:
        yield
    finally:
        _hold(part, reshard_after_forward, is_last=True)


def _hold(part: nn.Module, reshard_after_forward: bool, *, is_last: bool) -> None:
    assert isinstance(part, FSDPModule)
    part.set_is_last_backward(is_last)  # pending reductions are waited for once
    if reshard_after_forward:
        part.set_requires_all_reduce(is_last)
    else:
        part.set_requires_gradient_sync(is_last)
        part.set_reshard_after_backward(is_last)


def _drop_after_validation(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
    """Leave no gathered weights where no backward will drop them: the parts are what is saved and what is trained."""
    if torch.is_grad_enabled():
        return
    for module in part.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
