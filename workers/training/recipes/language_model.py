"""The recipe ``language-model``: a byte-level GPT that learns to continue text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ParallelStyle

from workers.training.data.corpus import Bytes, Corpus, load_corpus
from workers.training.data.order import EpochOrder, Rows
from workers.training.recipes import Batch
from workers.training.recipes.gpt import GPT, Shape
from workers.training.recipes.gpt_plan import tensor_plan
from workers.training.recipes.parts import keep_part
from workers.training.recipes.split_loss import split_cross_entropy

VOCABULARY = 256
VALIDATION_TOKENS = 8192


class LanguageModelTask:
    """Next-byte prediction; the loss is in nats per byte."""

    cuts_sequence = True

    def __init__(self, shape: Shape, corpus: Corpus, source: str, seed: int, device: torch.device) -> None:
        smallest = min(len(corpus.train), len(corpus.validation))
        if shape.context >= smallest:
            raise ValueError(f"task.model.context is {shape.context}, but a part of {source} has only {smallest} bytes")
        self.shape, self.corpus, self.source, self.seed, self.device = shape, corpus, source, seed, device
        self.unit, self.units_per_row, self.measures = "tokens", shape.context, ()
        self._train_order = EpochOrder(num_windows(corpus.train, shape.context), seed)
        self._validation_order = EpochOrder(num_windows(corpus.validation, shape.context), seed)
        self.num_train_rows = self._train_order.num_rows
        self.num_validation_rows = min(-(-VALIDATION_TOKENS // shape.context), self._validation_order.num_rows)
        self.data_digest = corpus.digest

    def make_model(self) -> nn.Module:
        return GPT(self.shape)

    def train_batch(self, positions: slice) -> Batch:
        """Return inputs and targets, each (rows, context) int64."""
        return self._windows(self.corpus.train, self._train_order.rows(positions))

    def validation_batch(self, rows: slice) -> Batch:
        """Return inputs and targets, each (rows, context) int64: the same windows at every validation."""
        return self._windows(self.corpus.validation, self._validation_order.rows(rows))

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs, targets = batch
        return self.criterion(model(inputs), targets)

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Logits (rows, context, vocabulary) and bytes (rows, context) -> mean cross-entropy."""
        if isinstance(outputs, DTensor):  # cut along the vocabulary by tensor-parallel ranks
            return split_cross_entropy(outputs, targets)
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measure(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.zeros(0, dtype=torch.float64, device=self.device)

    def keep_part(self, model: nn.Module, index: int, num_parts: int) -> None:
        assert isinstance(model, GPT)
        keep_part(model, index, num_parts)

    def hidden_shape(self, num_rows: int, index: int, num_parts: int) -> torch.Size:
        """(rows, context, width)"""
        return torch.Size((num_rows, self.shape.context, self.shape.width))

    def blocks(self, model: nn.Module) -> list[nn.Module]:
        assert isinstance(model, GPT)
        return list(model.layers.values())

    def tensor_plan(self) -> dict[str, ParallelStyle]:
        return tensor_plan()

    def describe(self) -> dict[str, Any]:
        return {
            "recipe": "language-model",
            "model": dataclasses.asdict(self.shape),
            "data": {"source": self.source, "digest": self.corpus.digest},
        }

    def _windows(self, text: Bytes, rows: Rows) -> Batch:
        windows = text[rows[:, None] * self.shape.context + np.arange(self.shape.context + 1)]
        tokens = torch.from_numpy(windows.astype(np.int64)).to(self.device)
        return tokens[:, :-1], tokens[:, 1:]


def num_windows(text: Bytes, context: int) -> int:
    """Return how many windows of ``context`` tokens lie side by side in ``text``, with one more token behind each."""
    return (len(text) - 1) // context


def load(task: Mapping[str, Any], *, seed: int, device: torch.device) -> LanguageModelTask:
    """Return the task for ``task.model`` and ``task.data`` of a spec. Raises ValueError naming the field at fault."""
    model = task["model"]
    shape = Shape(
        layers=int(model["layers"]),
        width=int(model["width"]),
        heads=int(model["heads"]),
        context=int(model["context"]),
        vocabulary=VOCABULARY,
        kv_heads=None if model.get("kv_heads", "auto") == "auto" else int(model["kv_heads"]),
    )
    source = str(task["data"]["source"])
    return LanguageModelTask(shape, load_corpus(source), source, seed, device)
