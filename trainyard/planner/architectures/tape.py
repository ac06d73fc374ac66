"""What a part of a model costs: its parameters, what it computes and moves, and what it keeps for its backward pass.

A model's file writes its layers on a ``Tape``, operator by operator, as its forward pass calls them; the tape counts.
Kept bytes follow what autograd saves: a matrix product its input, a norm its input and two numbers a row, a product of
two tensors both where both are trained, a sum nothing (Korthikanti et al. 2022, section 4.1, count the same way).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from trainyard.planner.machines.rates import MEMORY_BOUND
from trainyard.spec.strategies.messages import SMALL, WHOLE

__all__ = ["SMALL", "WHOLE", "Parameter", "Pass", "Section", "Tape", "Work", "merged"]


@dataclass(frozen=True, slots=True)
class Pass:
    """The rows that flow through the model at once, in which numbers, and among how many tensor-parallel ranks."""

    rows: int
    precision: str = "fp32"
    tensor: int = 1

    @property
    def small(self) -> int:
        """Bytes of a number that autocast computes with."""
        return SMALL[self.precision]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor of the whole model. ``is_cut``: tensor-parallel ranks hold a piece each."""

    name: str
    shape: tuple[int, ...]
    is_cut: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Work:
    """``forward`` and ``backward`` operators of a kind, each doing ``size`` of it: FLOPs, or bytes moved. A CPU's core
    does so in pieces of ``piece``, where that is not 0."""

    kind: str  # matmul, attention, convolution, one of MEMORY_BOUND, or call
    size: float
    forward: float
    backward: float
    piece: float = 0.0


@dataclass(frozen=True, slots=True)
class Section:
    """A run of layers that a pipeline never cuts, for one Pass on one rank. All but the counts are bytes.

    ``kept`` lives from its forward to its backward pass; ``dear`` is what products and attention have made, which
    selective checkpointing keeps in its place; ``entry`` is what flows in; ``transient`` comes on top at the fullest
    moment of its backward pass. ``exchanges`` are the payloads of the collectives among tensor-parallel ranks, forward
    and backward, by operation.
    """

    parameters: tuple[Parameter, ...]
    works: tuple[Work, ...]
    kept: float
    dear: float
    entry: float
    transient: float
    exchanges: tuple[tuple[str, float], ...]
    widest: float  # of its weights
    num_modules: int
    num_alike: int  # numbers that every tensor-parallel rank holds
    num_cut: int  # numbers of which each holds its piece

    def flops(self) -> float:
        """Return the FLOPs forward and backward that the mathematics asks for. Attention's two products have two each
        backward; the one that its kernel computes again takes time, but does not count."""
        return sum(
            work.size * (work.forward + (2 * work.forward if work.kind == "attention" else work.backward))
            for work in self.works
            if work.kind not in MEMORY_BOUND and work.kind != "call"
        )

    def num_parameters(self, tensor: int = 1) -> float:
        """Return how many numbers one of ``tensor`` ranks holds of it."""
        return self.num_alike + self.num_cut / tensor


@dataclass(slots=True)
class Tape:
    """Writes down one section; ``section`` gives it."""

    at: Pass
    prefix: str
    entry: float = 0.0
    parameters: list[Parameter] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    kept: float = 0.0
    dear: float = 0.0
    transient: float = 0.0
    exchanges: list[tuple[str, float]] = field(default_factory=list)
    widest: float = 0.0
    num_modules: int = 0

    def parameter(self, name: str, *shape: int, is_cut: bool = False) -> None:
        self.parameters.append(Parameter(f"{self.prefix}{name}", shape, is_cut))

    def linear(
        self,
        name: str,
        tokens: float,
        inputs: int,
        outputs: int,
        *,
        cut: str = "",
        bias: bool = False,
        products: int = 2,
    ) -> None:
        """A matrix product. ``cut`` is "columns" or "rows" where tensor-parallel ranks have a piece each; ``tokens``
        are then the whole sequence's. ``products`` of the backward pass: 1 where no gradient of the input is asked for.
        What it keeps is written by who knows whether others keep it too.
        """
        self.parameter(f"{name}.weight", outputs, inputs, is_cut=bool(cut))
        if bias:
            self.parameter(f"{name}.bias", outputs, is_cut=cut == "columns")
        pieces = self.at.tensor if cut else 1
        self.work("matmul", 2.0 * tokens * inputs * outputs / pieces, 1, products)
        self.dear += tokens * outputs / (pieces if cut == "columns" else 1) * self.at.small
        self.widest = max(self.widest, inputs * outputs / pieces * WHOLE)
        self.num_modules += 1
        if self.at.precision != "fp32":  # weight and input are rounded first, and gradients back again
            weight, flow = inputs * outputs / pieces, tokens * inputs / (pieces if cut == "rows" else 1)
            self.keep(weight * self.at.small)
            self.move(weight * 6, weight * 6)
            self.move(flow * 6, flow * 6)

    def work(self, kind: str, size: float, forward: float = 1, backward: float = 2, *, piece: float = 0.0) -> None:
        self.works.append(Work(kind, size, forward, backward, piece))

    def move(self, forward: float, backward: float = 0.0, *, operators: int = 1, backward_operators: int = 0) -> None:
        """``operators`` that read and write ``forward`` bytes together; backward as many where no other number is
        given."""
        self.works.append(Work("move", forward / operators, operators, 0))
        if backward:
            number = backward_operators or operators
            self.works.append(Work("move", backward / number, 0, number))

    def call(self, forward: int, backward: int) -> None:
        """Operators that only make views."""
        self.works.append(Work("call", 0.0, forward, backward))

    def keep(self, num_bytes: float, *, is_dear: bool = False) -> None:
        self.kept += num_bytes
        self.dear += num_bytes if is_dear else 0.0

    def norm(self, name: str, rows: float, width: int, *, num_stats: float | None = None, bias: bool = False) -> None:
        """A normalisation of ``rows`` times ``width`` numbers, which keeps its input and two numbers for each group."""
        self.parameter(f"{name}.weight", width)
        if bias:
            self.parameter(f"{name}.bias", width)
        num_bytes = rows * width * WHOLE
        kept = num_bytes if num_stats is None else rows * width * self.at.small  # behind convolutions all is small
        self.keep(kept + 2 * WHOLE * (rows if num_stats is None else num_stats))
        self.work("norm" if num_stats is None else "group-norm", num_bytes)
        self.num_modules += 1

    def add(self, numbers: float) -> None:
        """The sum with the residual stream: nothing is kept, but the gradients of both ways are added."""
        self.move(3 * numbers * WHOLE, 3 * numbers * WHOLE)

    def exchange(self, operation: str, num_bytes: float) -> None:
        """A collective of tensor-parallel ranks, forward or backward."""
        if self.at.tensor > 1:
            self.exchanges.append((operation, num_bytes))

    def need(self, num_bytes: float) -> None:
        """Bytes that the backward pass has on top of what is kept, at one of its moments: the most counts."""
        self.transient = max(self.transient, num_bytes)

    def section(self) -> Section:
        return Section(
            parameters=tuple(self.parameters),
            works=merged(self.works),
            kept=self.kept,
            dear=self.dear,
            entry=self.entry,
            transient=self.transient,
            exchanges=tuple(self.exchanges),
            widest=self.widest,
            num_modules=self.num_modules,
            num_alike=sum(one.size for one in self.parameters if not one.is_cut),
            num_cut=sum(one.size for one in self.parameters if one.is_cut),
        )


def merged(works: Iterable[Work]) -> tuple[Work, ...]:
    """Return ``works`` with those of one kind, size and piece together."""
    found: dict[tuple[str, float, float], list[float]] = {}
    for work in works:
        counts = found.setdefault((work.kind, work.size, work.piece), [0.0, 0.0])
        counts[0] += work.forward
        counts[1] += work.backward
    return tuple(Work(kind, size, forward, back, piece) for (kind, size, piece), (forward, back) in found.items())
