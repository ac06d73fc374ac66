"""The residual MLP over the columns of a table, as workers/training/recipes/mlp.py computes it."""

from __future__ import annotations

from dataclasses import dataclass

from trainyard.planner.architectures.tape import WHOLE, Pass, Section, Tape

RATIO = 2
TARGET = 8  # bytes of a class in a batch


@dataclass(frozen=True, slots=True)
class MLP:
    layers: int
    width: int
    features: int
    outputs: int

    def sections(self, at: Pass) -> list[Section]:
        return [self._embedding(at), *self._blocks(at), self._end(at)]

    def flow(self, at: Pass) -> list[float]:
        return [at.rows * self.width * WHOLE] * self.layers

    def batch_bytes(self, rows: int) -> float:
        return rows * (self.features * WHOLE + TARGET)

    def _embedding(self, at: Pass) -> Section:
        tape = Tape(at, "")
        tape.linear("embedding", at.rows, self.features, self.width, bias=True, products=1)
        tape.keep(at.rows * self.features * at.small)
        tape.need(at.rows * self.width * WHOLE)
        return tape.section()

    def _blocks(self, at: Pass) -> list[Section]:
        hidden, stream = RATIO * self.width, at.rows * self.width
        inner = at.rows * hidden / at.tensor
        tape = Tape(at, "layers.0.", stream * WHOLE)
        tape.norm("norm", at.rows, self.width, bias=True)
        tape.keep(stream * at.small)
        tape.linear("up", at.rows, self.width, hidden, cut="columns", bias=True)
        tape.keep(inner * at.small)  # what ReLU gives, which it keeps, and the second product too
        tape.move(2 * inner * at.small, 3 * inner * at.small)
        tape.linear("down", at.rows, hidden, self.width, cut="rows", bias=True)
        for _ in range(2):  # of what comes out, and backward of the gradient of what went in
            tape.exchange("all-reduce", stream * WHOLE)
        tape.add(stream)
        tape.need(2 * stream * WHOLE + inner * at.small)
        return [tape.section()] * self.layers

    def _end(self, at: Pass) -> Section:
        tape = Tape(at, "")
        tape.norm("norm", at.rows, self.width, bias=True)
        tape.keep(at.rows * self.width * at.small)
        tape.linear("head", at.rows, self.width, self.outputs, bias=True)
        tape.keep(at.rows * (self.outputs * WHOLE + TARGET))
        tape.call(3, 3)
        tape.need(2 * at.rows * max(self.width, self.outputs) * WHOLE)
        return tape.section()
