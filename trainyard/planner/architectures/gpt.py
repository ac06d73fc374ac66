"""The language model, as workers/training/recipes/gpt.py computes it."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.planner.architectures.tape import WHOLE, Pass, Section, Tape
from trainyard.planner.architectures.transformer import Stream, attention, mlp

INDEX = 8  # bytes of a token in a batch


@dataclass(frozen=True, slots=True)
class GPT:
    layers: int
    width: int
    heads: int
    kv_heads: int
    context: int
    vocabulary: int

    def sections(self, at: Pass) -> list[Section]:
        """Return the embedding, the blocks, and the end with head and loss."""
        return [self._embedding(at), *self._blocks(at), self._end(at)]

    def flow(self, at: Pass) -> list[float]:
        """Return the bytes of what flows out of each block."""
        return [at.rows * self.context * self.width * WHOLE / at.tensor] * self.layers

    def batch_bytes(self, rows: int) -> float:
        return 2.0 * rows * self.context * INDEX

    def _embedding(self, at: Pass) -> Section:
        tape = Tape(at, "")
        tokens = at.rows * self.context
        tape.parameter("embedding.weight", self.vocabulary, self.width, is_cut=True)
        numbers = tokens * self.width
        # Backward fills a whole gradient with zeros first, and then adds row by row.
        weight = self.vocabulary * self.width / at.tensor
        tape.move(2 * numbers * WHOLE, 3 * numbers * WHOLE + weight * WHOLE, backward_operators=2)
        for operation in ("reduce-scatter", "all-gather"):
            tape.exchange(operation, numbers * WHOLE)
        tape.keep(tokens * INDEX)
        tape.need(numbers / at.tensor * WHOLE)
        tape.num_modules = 1
        return tape.section()

    def _blocks(self, at: Pass) -> list[Section]:
        stream = Stream(self.context, self.width, self.heads, self.kv_heads, is_cut=True, is_turned=True)
        first = Tape(at, "layers.0.", self.flow(at)[0])
        attention(first, stream)
        mlp(first, stream)
        return [first.section()] * self.layers

    def _end(self, at: Pass) -> Section:
        tape = Tape(at, "")
        tokens = at.rows * self.context
        tape.norm("norm", tokens / at.tensor, self.width)
        for operation in ("all-gather", "reduce-scatter"):
            tape.exchange(operation, tokens * self.width * WHOLE)
        tape.keep(tokens * self.width * at.small)
        tape.linear("head", tokens, self.width, self.vocabulary, cut="columns")
        logits = tokens * self.vocabulary / at.tensor
        tape.keep(logits * WHOLE + tokens * INDEX)  # the logarithms of the softmax
        tape.work("softmax", logits * WHOLE)
        for _ in range(2):
            tape.exchange("all-reduce", tokens * WHOLE)
        tape.need(2 * logits * WHOLE)
        return tape.section()
