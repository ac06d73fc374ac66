"""Plan by which tensor-parallel ranks cut the GPT: which matrix by columns, which by rows, and where the sequence is
split."""

from __future__ import annotations

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
)

BY_TIME = Shard(1)  # of (batch, time, width): the residual stream between all modules, in plain tensors
WHOLE = Replicate()


def tensor_plan() -> dict[str, ParallelStyle]:
    """Return the style of each module by name; a star stands for any layer. Styles are used once: each call makes new
    ones.

    Attention is cut by heads, as rows of its three projections are whole heads: ``Attention`` counts those it has.
    """
    return {
        # Each rank looks up the bytes it has rows for; the sum of what all found is handed out by time.
        "embedding": RowwiseParallel(input_layouts=WHOLE, output_layouts=BY_TIME),
        "layers.*.attention_norm": SequenceParallel(),
        # Gathered once for the three projections; ``turn``, the table of angles, is whole and no DTensor.
        "layers.*.attention": PrepareModuleInput(input_layouts=(BY_TIME, None), desired_input_layouts=(WHOLE, None)),
        "layers.*.attention.query": ColwiseParallel(),
        "layers.*.attention.key": ColwiseParallel(),
        "layers.*.attention.value": ColwiseParallel(),
        "layers.*.attention.output": RowwiseParallel(output_layouts=BY_TIME),
        "layers.*.mlp_norm": SequenceParallel(),
        "layers.*.mlp": PrepareModuleInput(input_layouts=(BY_TIME,), desired_input_layouts=(WHOLE,)),
        "layers.*.mlp.up": ColwiseParallel(),
        "layers.*.mlp.down": RowwiseParallel(output_layouts=BY_TIME),
        "norm": SequenceParallel(),
        # Logits stay cut along the vocabulary, as DTensors: the loss needs no more.
        "head": ColwiseParallel(input_layouts=BY_TIME, output_layouts=Shard(-1), use_local_output=False),
    }
