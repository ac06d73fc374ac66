"""The recipe ``language-model``: a GPT that learns to continue text, byte by byte or in BPE tokens."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
import torch.nn.functional as F
from numpy.lib.stride_tricks import sliding_window_view
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ParallelStyle

from trainyard.spec.sections import tasks as spec
from trainyard.spec.sections.data import TextData
from workers.training.data.batches.batch import Batch
from workers.training.data.batches.order import EpochOrder, Rows
from workers.training.data.batches.transfer import on_device
from workers.training.data.corpus import TOKENIZER, Corpus, Tokens, load_corpus
from workers.training.data.fetching.problems import shown
from workers.training.data.problems import DataProblem
from workers.training.recipes import ModelDocument
from workers.training.recipes.gpt import GPT, Shape
from workers.training.recipes.gpt_plan import tensor_plan
from workers.training.recipes.parts import keep_part
from workers.training.recipes.split_loss import split_cross_entropy
from workers.training.recipes.width_transfer import rate_scale

VALIDATION_TOKENS = 8192
DESCRIBED = {"source", "location", "tokens", "vocabulary"}  # of task.data, beside the weights


class LanguageModelTask:
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
        self.data_facts = facts_of(corpus, self.num_train_rows)
        self.assets = {} if corpus.tokenizer is None else {TOKENIZER: corpus.tokenizer}

    def make_model(self) -> nn.Module:
        return GPT(self.shape)

    def train_batch(self, positions: slice | Rows) -> Batch:
        """Return inputs and targets, each (rows, context) int64."""
        return self._batch(self._train[self._train_order.rows(positions)])

    def validation_batch(self, rows: slice) -> Batch:
        """Return inputs and targets, each (rows, context) int64: the same windows at every validation."""
        return self._batch(self._validation[self._validation_order.rows(rows)])

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs, targets = batch
        return self.criterion(model(inputs), targets)

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Logits (rows, context, vocabulary) and tokens (rows, context) -> mean cross-entropy."""
        if isinstance(outputs, DTensor):  # cut along the vocabulary by tensor-parallel ranks
            return split_cross_entropy(outputs, targets)
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measure(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        nats = self.criterion(outputs, targets).double() * len(targets) * self.shape.context
        return (nats / self._bytes_a_row)[None]

    def keep_part(self, model: nn.Module, index: int, num_parts: int) -> None:
        assert isinstance(model, GPT)
        keep_part(model, index, num_parts)  # type: ignore[arg-type]  # None takes the place of what is dropped

    def hidden_shape(self, num_rows: int, index: int, num_parts: int) -> torch.Size:
        """(rows, context, width)"""
        return torch.Size((num_rows, self.shape.context, self.shape.width))

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        assert isinstance(model, GPT)
        return list(model.layers.values())

    def tensor_plan(self) -> dict[str, ParallelStyle]:
        return tensor_plan()

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
        raise DataProblem(
            f"task.model.context is {context}, but a part of {name} has only {smallest} tokens: choose a smaller "
            "context, or add text"
        )


def facts_of(corpus: Corpus, num_rows: int) -> dict[str, int | str]:
    """Return what the run's page is told of the data."""
    return {
        "num_rows": num_rows,
        "digest": corpus.digest,
        "num_bytes": corpus.num_bytes,
        "tokens": len(corpus.train),
        "vocabulary": corpus.vocabulary,
    }


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
