"""The ViT, as workers/training/recipes/vit.py computes it."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.planner.architectures.tape import WHOLE, Pass, Section, Tape
from trainyard.planner.architectures.transformer import Stream, attention, mlp

INDEX = 8  # bytes of a class in a batch


@dataclass(frozen=True, slots=True)
class ViT:
    layers: int
    width: int
    heads: int
    patch: int
    channels: int
    size: int
    outputs: int

    @property
    def num_patches(self) -> int:
        return max(1, self.size // self.patch) ** 2

    def sections(self, at: Pass) -> list[Section]:
        return [self._embedding(at), *self._blocks(at), self._end(at)]

    def flow(self, at: Pass) -> list[float]:
        return [at.rows * self.num_patches * self.width * WHOLE] * self.layers

    def batch_bytes(self, rows: int) -> float:
        return rows * (self.channels * self.size**2 * WHOLE + INDEX)

    def _embedding(self, at: Pass) -> Section:
        tape = Tape(at, "embedding.")
        tokens, pixels = at.rows * self.num_patches, self.channels * self.patch**2
        tape.parameter("places", self.num_patches, self.width)
        tape.linear("pixels", tokens, pixels, self.width, products=1)
        tape.keep(tokens * pixels * WHOLE)
        tape.move(2 * tokens * pixels * WHOLE)
        tape.add(tokens * self.width)
        tape.need(tokens * self.width * WHOLE)
        return tape.section()

    def _blocks(self, at: Pass) -> list[Section]:
        stream = Stream(self.num_patches, self.width, self.heads, self.heads, is_cut=False, is_turned=False)
        first = Tape(at, "layers.0.", self.flow(at)[0])
        attention(first, stream)
        mlp(first, stream)
        return [first.section()] * self.layers

    def _end(self, at: Pass) -> Section:
        tape = Tape(at, "")
        tokens = at.rows * self.num_patches
        numbers = tokens * self.width
        tape.norm("norm", tokens, self.width)
        tape.move(numbers * WHOLE, numbers * WHOLE)
        tape.linear("head.outputs", at.rows, self.width, self.outputs, bias=True)
        tape.keep(at.rows * (self.width * at.small + self.outputs * WHOLE + INDEX))
        tape.call(4, 4)
        tape.need(2 * numbers * WHOLE)
        return tape.section()
