"""The recipe ``language-model``: a GPT that learns to continue text, byte by byte or in BPE tokens."""

import dataclasses
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from numpy.lib.stride_tricks import sliding_window_view
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor import parallel as tp

from trainyard.spec.sections import tasks as spec
from trainyard.spec.sections.data import TextData
from workers.training.data.batches.feed import on_device
from workers.training.data.batches.order import Batch, EpochOrder, Rows
from workers.training.data.corpus import TOKENIZER, Corpus, Tokens, load_corpus
from workers.training.data.fetching.problems import shown
from workers.training.data.problems import DataProblem
from workers.training.recipes import ModelDocument
from workers.training.recipes.gpt import GPT, Shape, rate_scale
from workers.training.recipes.parts import ChainTask

VALIDATION_TOKENS = 8192
DESCRIBED = {"source", "location", "tokens", "vocabulary"}  # of task.data, beside the weights
BY_TIME = Shard(1)  # of (batch, time, width): the residual stream between all modules, in plain tensors
WHOLE = Replicate()


class LanguageModelTask(ChainTask):
    """Prediction of the next token; the loss is in nats per token. ``val/nats_per_byte`` compares models whose tokens
    are not the same: the nats of all tokens of the validation rows over the bytes that these tokens are."""

    unit = "tokens"
    cuts_sequence = True
    measures = ("nats_per_byte",)

    def __init__(self, shape: Shape, corpus: Corpus, data: TextData, seed: int, device: torch.device) -> None:
        refuse_too_little(corpus, data, shape.context)
        self.shape, self.corpus, self.data, self.seed, self.device = shape, corpus, data, seed, device
        self.units_per_row = shape.context
        self._train = windows(corpus.train, shape.context)
        self._validation = windows(corpus.validation, shape.context)
        self._train_order = EpochOrder(len(self._train), seed)
        self._validation_order = EpochOrder(len(self._validation), seed)
        self.num_train_rows = len(self._train)
        self.num_validation_rows = min(-(-VALIDATION_TOKENS // shape.context), len(self._validation))
        rows = self._validation[self._validation_order.rows(slice(0, self.num_validation_rows))]
        self._bytes_a_row = int(corpus.lengths[rows[:, 1:]].sum()) / self.num_validation_rows
        self.data_digest = corpus.digest
        self.data_facts = {
            "num_rows": self.num_train_rows,
            "digest": corpus.digest,
            "num_bytes": corpus.num_bytes,
            "tokens": len(corpus.train),
            "vocabulary": corpus.vocabulary,
        }
        self.assets = {} if corpus.tokenizer is None else {TOKENIZER: corpus.tokenizer}

    def make_model(self) -> nn.Module:
        return GPT(self.shape)

    def train_batch(self, positions: slice | Rows) -> Batch:
        """Return inputs and targets, each (rows, context) int64."""
        return self._batch(self._train[self._train_order.rows(positions)])

    def validation_batch(self, rows: slice) -> Batch:
        """Return inputs and targets, each (rows, context) int64: the same windows at every validation."""
        return self._batch(self._validation[self._validation_order.rows(rows)])

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Logits (rows, context, vocabulary) and tokens (rows, context) -> mean cross-entropy."""
        if isinstance(outputs, DTensor):  # cut along the vocabulary by tensor-parallel ranks
            return split_cross_entropy(outputs, targets)
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measure(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        nats = self.criterion(outputs, targets).double() * len(targets) * self.shape.context
        return (nats / self._bytes_a_row)[None]

    def hidden_shape(self, num_rows: int, index: int, num_parts: int) -> torch.Size:
        """(rows, context, width)"""
        return torch.Size((num_rows, self.shape.context, self.shape.width))

    def tensor_plan(self) -> dict[str, tp.ParallelStyle]:
        """Return the style of each module by name; a star stands for any layer. Styles are used once: each call makes
        new ones.

        Attention is cut by heads, as rows of its three projections are whole heads: ``Attention`` counts those it has.
        """
        return {
            # Each rank looks up the bytes it has rows for; the sum of what all found is handed out by time.
            "embedding": tp.RowwiseParallel(input_layouts=WHOLE, output_layouts=BY_TIME),
            "layers.*.attention_norm": tp.SequenceParallel(),
            # Gathered once for the three projections; ``turn``, the table of angles, is whole and no DTensor.
            "layers.*.attention": tp.PrepareModuleInput(
                input_layouts=(BY_TIME, None), desired_input_layouts=(WHOLE, None)
            ),
            "layers.*.attention.query": tp.ColwiseParallel(),
            "layers.*.attention.key": tp.ColwiseParallel(),
            "layers.*.attention.value": tp.ColwiseParallel(),
            "layers.*.attention.output": tp.RowwiseParallel(output_layouts=BY_TIME),
            "layers.*.mlp_norm": tp.SequenceParallel(),
            "layers.*.mlp": tp.PrepareModuleInput(input_layouts=(BY_TIME,), desired_input_layouts=(WHOLE,)),
            "layers.*.mlp.up": tp.ColwiseParallel(),
            "layers.*.mlp.down": tp.RowwiseParallel(output_layouts=BY_TIME),
            "norm": tp.SequenceParallel(),
            # Logits stay cut along the vocabulary, as DTensors: the loss needs no more.
            "head": tp.ColwiseParallel(input_layouts=BY_TIME, output_layouts=Shard(-1), use_local_output=False),
        }

    def rate_scale(self, parameter: str, optimizer: str) -> float:
        return rate_scale(parameter, self.shape.width_ratio, optimizer)

    def describe(self) -> ModelDocument:
        data = self.data.model_dump(include=DESCRIBED) | {"location": shown(self.data.location)}
        return {
            "recipe": "language-model",
            "model": dataclasses.asdict(self.shape),
            "data": data | {"digest": self.data_digest},
        }

    def _batch(self, rows: Tokens) -> Batch:
        tokens = on_device(rows.astype(np.int64), self.device)
        return tokens[:, :-1], tokens[:, 1:]


def windows(text: Tokens, context: int) -> Tokens:
    """Return (rows, context + 1): windows of ``context`` tokens side by side, with one more token behind each."""
    found: Tokens = sliding_window_view(np.asarray(text), context + 1)[::context]
    return found


def refuse_too_little(corpus: Corpus, data: TextData, context: int) -> None:
    """Raise DataProblem where not even one window fits."""
    smallest = min(len(corpus.train), len(corpus.validation))
    if context >= smallest:
        name = shown(data.location or data.source)
        words = "choose a smaller context, or add text"
        raise DataProblem(f"task.model.context is {context}, but a part of {name} has only {smallest} tokens: {words}")


def load(task: spec.LanguageModelTask, *, seed: int, device: torch.device) -> LanguageModelTask:
    """Return the task for ``task.model`` and ``task.data`` of a spec. Raises ValueError naming the field at fault."""
    model, corpus = task.model, load_corpus(task.data)
    shape = Shape(
        layers=model.layers,
        width=model.width,
        heads=model.heads,
        context=model.context,
        vocabulary=corpus.vocabulary,
        kv_heads=None if model.kv_heads == "auto" else int(model.kv_heads),
        base_width=model.base_width or None,
    )
    return LanguageModelTask(shape, corpus, task.data, seed, device)


# Cross-entropy over logits that tensor-parallel ranks hold cut along the vocabulary: no rank ever sees them whole.
#
# Source: Shoeybi et al. 2019, "Megatron-LM" (section 3: the fused parallel cross-entropy, which sends a few numbers a
# token in place of a vocabulary of them). torch's ``loss_parallel`` does the same in a context that backward must run
# in as well, which the schedule of a pipeline would have to know of.


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
        """Return the gradient of each logit: its softmax, less one at the target, over the number of tokens."""
        softmax, own, is_mine = ctx.saved_tensors
        change = softmax.scatter_add(-1, own[:, None], -is_mine[:, None].to(softmax.dtype))
        return (change * (gradients[0] / len(own))).to(ctx.dtype), None, None, None
