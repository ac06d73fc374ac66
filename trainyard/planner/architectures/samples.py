"""Models of rows and images: the residual MLP and the ResNet, as ``workers/training/recipes`` computes them."""

import math
from dataclasses import dataclass

from trainyard.spec.strategies.costs import Pass, Section
from trainyard.spec.strategies.messages import WHOLE

SMALLEST_SIDE = 4
MOST_RUNS = 4
NORM_GROUPS = 8
INDEX = 8  # bytes of a class in a batch


@dataclass(frozen=True, slots=True)
class ResNet:
    layers: int
    width: int
    channels: int
    size: int
    outputs: int

    def sections(self, at: Pass) -> list[Section]:
        return [self._embedding(at), *(self._block(at, layer) for layer in range(self.layers)), self._end(at)]

    def flow(self, at: Pass) -> float:
        return max(at.rows * width * side**2 * WHOLE for width, side in map(self._shape, range(self.layers)))

    def batch_bytes(self, rows: int) -> float:
        return rows * (self.channels * self.size**2 * WHOLE + INDEX)

    def _shape(self, layer: int) -> tuple[int, int]:
        """Return channels and side of what flows out of ``layer``; before the first one, -1, of what flows into it."""
        num_runs = min(self.layers, 1 + max(0, int(math.log2(self.size / SMALLEST_SIDE))), MOST_RUNS)
        short, num_longer = divmod(self.layers, num_runs)
        in_longer = num_longer * (short + 1)
        run = layer // (short + 1) if layer < in_longer else num_longer + (layer - in_longer) // max(1, short)
        run, side = max(0, run), self.size
        for _ in range(run):
            side = -(-side // 2)
        return self.width * 2**run, side

    def _embedding(self, at: Pass) -> Section:
        section, places = Section(at), at.rows * self.size**2
        convolution(section, "embedding", places, self.channels, self.width, 3, back=1)
        section.keep(places * self.channels * at.small)
        section.need(places * self.width * WHOLE)
        return section

    def _block(self, at: Pass, layer: int) -> Section:
        (before, old_side), (width, side) = self._shape(layer - 1), self._shape(layer)
        coming, going = at.rows * old_side**2 * before, at.rows * side**2 * width
        section = Section(at, f"layers.{layer}.", coming * WHOLE)
        normed(section, "first_norm", old_side, before)
        convolution(section, "first", at.rows * side**2, before, width, 3)
        normed(section, "second_norm", side, width)
        convolution(section, "second", at.rows * side**2, width, width, 3)
        if (before, old_side) != (width, side):
            convolution(section, "shortcut", at.rows * side**2, before, width, 1)
        section.add(going)
        section.need(max(2 * coming + going, 3 * going) * WHOLE)
        return section

    def _end(self, at: Pass) -> Section:
        width, side = self._shape(self.layers - 1)
        section, numbers = Section(at), at.rows * width * side**2
        normed(section, "norm", side, width)
        section.move(numbers * WHOLE, numbers * WHOLE)
        section.linear("head.outputs", at.rows, width, self.outputs, bias=True)
        section.keep(at.rows * (width * at.small + self.outputs * WHOLE + INDEX))
        section.need(2 * numbers * WHOLE)
        return section


def convolution(
    section: Section, name: str, places: float, inputs: int, outputs: int, side: int, *, back: int = 2
) -> None:
    """A convolution that gives ``places`` pixels of all rows; ``back`` products of its backward pass."""
    section.parameter(f"{name}.weight", outputs, inputs, side, side)
    section.work("convolution", 2.0 * places * inputs * outputs * side**2, back)
    if section.at.small != WHOLE:  # the kernel is rounded, and the pixels too where they are not yet
        section.keep(inputs * outputs * side**2 * section.at.small)


def normed(section: Section, name: str, side: int, width: int) -> None:
    """A group normalisation and the ReLU behind it, whose result the convolution keeps too."""
    rows = section.at.rows
    numbers = rows * side**2 * width
    section.norm(name, rows * side**2, width, groups=rows * math.gcd(NORM_GROUPS, width), bias=True)
    section.keep(numbers * section.at.small)
    section.move(2 * numbers * WHOLE, 3 * numbers * WHOLE)


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
