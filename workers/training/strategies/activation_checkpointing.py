"""Activation checkpointing: what the backward pass needs of a block is computed again instead of kept.

Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; the selective kind follows the thought of
Korthikanti et al. 2022, section 5: keep what is expensive to compute, and recompute what is cheap and large.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from workers.training.assembly import Assembly

aten = torch.ops.aten
# Matrix products, convolutions, attention, and what came from other ranks (a collective would have to be waited for
# twice). The rest, norms, rotations, activations and sums, reads and writes memory and computes next to nothing.
KEPT = frozenset(
    {
        aten.mm.default,
        aten.addmm.default,
        aten.bmm.default,
        aten.convolution.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_cudnn_attention.default,
        torch.ops._c10d_functional.all_gather_into_tensor.default,
        torch.ops._c10d_functional.reduce_scatter_tensor.default,
        torch.ops._c10d_functional.all_reduce.default,
    }
)


def apply(assembly: Assembly) -> None:
    checkpoint_blocks(assembly.blocks, assembly.settings.activation_checkpointing)


def checkpoint_blocks(blocks: Iterable[nn.Module], kind: str) -> None:
    """Let each of ``blocks`` keep less between its forward and its backward pass.

    ``full`` keeps a block's input alone, ``selective`` what the operators in KEPT have made too. Gradients and names
    of parameters stay what they are, and random numbers are drawn again as they were.
    """
    for block in blocks if kind != "none" else ():
        # In place of forward and not as a module around the block: no name changes, and hooks that others hang on the
        # block (FSDP's gathering of weights) run once, not again when the block is computed again.
        block.forward = checkpointed(block.forward, kind)


def keep_dear(context: Any, operator: Any, *arguments: Any, **named: Any) -> CheckpointPolicy:
    """Say for one call of an operator whether what it makes is kept."""
    return CheckpointPolicy.MUST_SAVE if operator in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


DEAR = partial(create_selective_checkpoint_contexts, keep_dear)


def checkpointed(forward: Callable[..., torch.Tensor], kind: str) -> Callable[..., torch.Tensor]:
    """Return ``forward`` with less kept. The reentrant way of torch would hide the parameters from DDP's hooks."""

    # Functions of this file and no partials of torch's: only a frame outside torch is one that torch.compile takes up.
    def keeping_nothing(*arguments: Any) -> torch.Tensor:
        output: torch.Tensor = checkpoint(forward, *arguments, use_reentrant=False)
        return output

    def keeping_what_is_dear(*arguments: Any) -> torch.Tensor:
        output: torch.Tensor = checkpoint(forward, *arguments, use_reentrant=False, context_fn=DEAR)
        return output

    return keeping_nothing if kind == "full" else keeping_what_is_dear
