"""The residual MLP over the columns of a table, as workers/training/recipes/mlp.py computes it."""

from dataclasses import dataclass

from trainyard.spec.strategies.costs.sections import Pass, Section
from trainyard.spec.strategies.messages import WHOLE

RATIO = 2
TARGET = 8  # bytes of a class in a batch


@dataclass(frozen=True, slots=True)
class MLP:
    layers: int
    width: int
    features: int
    outputs: int

    def sections(self, at: Pass) -> list[Section]:
        return [self._embedding(at), *[self._block(at)] * self.layers, self._end(at)]

    def flow(self, at: Pass) -> float:
        return at.rows * self.width * WHOLE

    def batch_bytes(self, rows: int) -> float:
        return rows * (self.features * WHOLE + TARGET)

    def _embedding(self, at: Pass) -> Section:
        section = Section(at)
        section.linear("embedding", at.rows, self.features, self.width, bias=True, back=1)
        section.keep(at.rows * self.features * at.small)
        section.need(at.rows * self.width * WHOLE)
        return section

    def _block(self, at: Pass) -> Section:
        hidden, stream = RATIO * self.width, at.rows * self.width
        inner = at.rows * hidden / at.tensor
        section = Section(at, "layers.0.", stream * WHOLE)
        section.norm("norm", at.rows, self.width, bias=True)
        section.keep(stream * at.small)
        section.linear("up", at.rows, self.width, hidden, cut="columns", bias=True)
        section.keep(inner * at.small)  # what ReLU gives, which it keeps, and the second product too
        section.move(2 * inner * at.small, 3 * inner * at.small)
        section.linear("down", at.rows, hidden, self.width, cut="rows", bias=True)
        # Sums of what comes out, and backward of the gradient of what went in.
        section.exchange(stream * WHOLE, "all-reduce", "all-reduce")
        section.add(stream)
        section.need(2 * stream * WHOLE + inner * at.small)
        return section

    def _end(self, at: Pass) -> Section:
        section = Section(at)
        section.norm("norm", at.rows, self.width, bias=True)
        section.keep(at.rows * self.width * at.small)
        section.linear("head", at.rows, self.width, self.outputs, bias=True)
        section.keep(at.rows * (self.outputs * WHOLE + TARGET))
        section.need(2 * at.rows * max(self.width, self.outputs) * WHOLE)
        return section
