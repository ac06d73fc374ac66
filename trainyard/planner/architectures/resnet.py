"""The ResNet, as workers/training/recipes/resnet.py computes it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainyard.planner.architectures.tape import WHOLE, Pass, Section, Tape

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

    def flow(self, at: Pass) -> list[float]:
        return [at.rows * width * side**2 * WHOLE for width, side in map(self._flow, range(self.layers))]

    def batch_bytes(self, rows: int) -> float:
        return rows * (self.channels * self.size**2 * WHOLE + INDEX)

    def _flow(self, layer: int) -> tuple[int, int]:
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
        tape = Tape(at, "")
        places = at.rows * self.size**2
        convolution(tape, "embedding", places, self.channels, self.width, 3, products=1)
        tape.keep(places * self.channels * at.small)
        tape.need(places * self.width * WHOLE)
        return tape.section()

    def _block(self, at: Pass, layer: int) -> Section:
        (before, old_side), (width, side) = self._flow(layer - 1), self._flow(layer)
        coming, going = at.rows * old_side**2 * before, at.rows * side**2 * width
        tape = Tape(at, f"layers.{layer}.", coming * WHOLE)
        normed(tape, "first_norm", at.rows, old_side, before)
        convolution(tape, "first", at.rows * side**2, before, width, 3)
        normed(tape, "second_norm", at.rows, side, width)
        convolution(tape, "second", at.rows * side**2, width, width, 3)
        if (before, old_side) != (width, side):
            convolution(tape, "shortcut", at.rows * side**2, before, width, 1)
        tape.add(going)
        tape.need(max(2 * coming + going, 3 * going) * WHOLE)
        return tape.section()

    def _end(self, at: Pass) -> Section:
        width, side = self._flow(self.layers - 1)
        numbers = at.rows * width * side**2
        tape = Tape(at, "")
        normed(tape, "norm", at.rows, side, width)
        tape.move(numbers * WHOLE, numbers * WHOLE)
        tape.linear("head.outputs", at.rows, width, self.outputs, bias=True)
        tape.keep(at.rows * (width * at.small + self.outputs * WHOLE + INDEX))
        tape.call(3, 3)
        tape.need(2 * numbers * WHOLE)
        return tape.section()


def convolution(
    tape: Tape, name: str, places: float, inputs: int, outputs: int, side: int, *, products: int = 2
) -> None:
    """A convolution that gives ``places`` pixels of all rows; ``products`` of its backward pass: 1 where no gradient
    of its input is asked for."""
    tape.parameter(f"{name}.weight", outputs, inputs, side, side)
    tape.work("convolution", 2.0 * places * inputs * outputs * side**2, 1, products)
    tape.num_modules += 1
    if tape.at.small != WHOLE:  # the kernel is rounded, and the pixels too where they are not yet
        tape.keep(inputs * outputs * side**2 * tape.at.small)


def normed(tape: Tape, name: str, rows: int, side: int, width: int) -> None:
    """A group normalisation and the ReLU behind it, whose result the convolution keeps too."""
    numbers = rows * side**2 * width
    tape.norm(name, rows * side**2, width, num_stats=rows * math.gcd(NORM_GROUPS, width), bias=True)
    tape.keep(numbers * tape.at.small)
    tape.move(2 * numbers * WHOLE, 3 * numbers * WHOLE)
