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

from workers.training.recipes import Batch
from workers.training.recipes.corpus import Bytes, Corpus, load_corpus
from workers.training.recipes.gpt import GPT, Shape, keep_part
from workers.training.recipes.gpt_plan import tensor_plan
from workers.training.recipes.split_loss import split_cross_entropy

VOCABULARY = 256
VALIDATION_TOKENS = 8192
VALIDATION_STEP = 0  # training steps start at 1, so this one's draws are free


class LanguageModelTask:
    """Next-byte prediction; the loss is in nats per byte."""

    def __init__(self, shape: Shape, corpus: Corpus, source: str, seed: int, device: torch.device) -> None:
        smallest = min(len(corpus.train), len(corpus.validation))
        if shape.context >= smallest:
            raise ValueError(f"task.model.context is {shape.context}, but a part of {source} has only {smallest} bytes")
        self.shape, self.corpus, self.source, self.seed, self.device = shape, corpus, source, seed, device
        self.tokens_per_row = shape.context
        self.num_validation_rows = -(-VALIDATION_TOKENS // shape.context)
        self.data_digest = corpus.digest

    def make_model(self) -> nn.Module:
        return GPT(self.shape)

    def train_batch(self, step: int, rows: slice) -> Batch:
        """Return inputs and targets, each (rows, context) int64."""
        return self._windows(self.corpus.train, step, rows)

    def validation_batch(self, rows: slice) -> Batch:
        """Return inputs and targets, each (rows, context) int64: the same windows at every validation."""
        return self._windows(self.corpus.validation, VALIDATION_STEP, rows)

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        inputs, targets = batch
        return self.criterion(model(inputs), targets)

    def criterion(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Logits (rows, context, vocabulary) and bytes (rows, context) -> mean cross-entropy."""
        if isinstance(outputs, DTensor):  # cut along the vocabulary by tensor-parallel ranks
            return split_cross_entropy(outputs, targets)
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def keep_part(self, model: nn.Module, index: int, num_parts: int) -> None:
        assert isinstance(model, GPT)
        keep_part(model, index, num_parts)

    def hidden_shape(self, num_rows: int) -> torch.Size:
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

    def _windows(self, text: Bytes, step: int, rows: slice) -> Batch:
        starts = window_starts(self.seed, step, rows.stop, len(text) - self.shape.context)[rows]
        windows = text[starts[:, None] + np.arange(self.shape.context + 1)]
        tokens = torch.from_numpy(windows.astype(np.int64)).to(self.device)
        return tokens[:, :-1], tokens[:, 1:]


def window_starts(seed: int, step: int, num_rows: int, num_starts: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return where the first ``num_rows`` windows of a step begin, each from 0 to ``num_starts`` - 1.

    A counter-based generator (Salmon et al. 2011) keyed by seed and step: no state to carry, and its raw stream is
    the same in every version of numpy.
    """
    raw = np.random.Philox(key=[seed % 2**64, step]).random_raw(num_rows)
    return (raw % np.uint64(num_starts)).astype(np.int64)


def load(task: Mapping[str, Any], *, seed: int, device: torch.device) -> LanguageModelTask:
    """Return the task for ``task.model`` and ``task.data`` of a spec. Raises ValueError naming the field at fault."""
    model = task["model"]
    shape = Shape(
        layers=int(model["layers"]),
        width=int(model["width"]),
        heads=int(model["heads"]),
        context=int(model["context"]),
        vocabulary=VOCABULARY,
    )
    source = str(task["data"]["source"])
    return LanguageModelTask(shape, load_corpus(source), source, seed, device)
