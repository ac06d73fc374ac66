"""Cross-entropy over logits that tensor-parallel ranks hold cut along the vocabulary: no rank ever sees them whole.

Source: Shoeybi et al. 2019, "Megatron-LM" (section 3: the fused parallel cross-entropy, which sends a few numbers a
token in place of a vocabulary of them). torch's ``loss_parallel`` does the same in a context that backward must run in
as well, which the schedule of a pipeline would have to know of.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard


def split_cross_entropy(logits: DTensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean cross-entropy, a float32 scalar that is the same on all ranks of the group.

    ``logits`` (rows, time, vocabulary) is cut along the last dimension; ``targets`` (rows, time) int64 is whole.
    """
    (placement,) = logits.placements
    assert isinstance(placement, Shard) and placement.dim in (logits.ndim - 1, -1), placement
    group = logits.device_mesh.get_group()
    piece = -(-logits.shape[-1] // group.size())  # as chunk() cuts: all but the last are of this size
    loss: torch.Tensor = _SplitCrossEntropy.apply(  # type: ignore[no-untyped-call]
        logits.to_local().flatten(0, -2), targets.flatten(), piece * group.rank(), group
    )
    return loss


class _SplitCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, targets: torch.Tensor, first: int, group: dist.ProcessGroup
    ) -> torch.Tensor:
        """``logits`` (tokens, piece) are those of classes ``first`` and on; ``targets`` (tokens,) count in all."""
        size = logits.shape[-1]
        peak = logits.amax(-1).float()
        dist.all_reduce(peak, dist.ReduceOp.MAX, group=group)
        shifted = logits.float() - peak[:, None]
        weights = shifted.exp()
        is_mine = (targets >= first) & (targets < first + size)
        own = (targets - first).clamp(0, size - 1)
        at_target = shifted.gather(-1, own[:, None]).squeeze(-1) * is_mine
        sums = torch.stack((weights.sum(-1), at_target))
        dist.all_reduce(sums, group=group)
        ctx.save_for_backward(weights.div_(sums[0, :, None]), own, is_mine)
        ctx.dtype = logits.dtype
        return (sums[0].log() - sums[1]).mean()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        """Of each logit: its softmax, less one at the target, over the number of tokens."""
        softmax, own, is_mine = ctx.saved_tensors
        change = softmax.scatter_add(-1, own[:, None], -is_mine[:, None].to(softmax.dtype))
        return (change * (gradients[0] / len(own))).to(ctx.dtype), None, None, None
