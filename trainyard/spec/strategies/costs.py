"""Costs of a part of a model: its parameters, what it computes and moves, and what it keeps for its backward pass.

A model's file writes its layers into ``Section``s, operator by operator, as its forward pass calls them. Kept bytes
follow what autograd saves: a matrix product its input, a norm its input and two numbers a row, a product of two tensors
both where both are trained, a sum nothing (Korthikanti et al. 2022, section 4.1, count the same way).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies.mesh import Mesh
from trainyard.spec.strategies.messages import SMALL, WHOLE
from trainyard.spec.strategies.pipeline import CHUNKS, choose_microbatches

PRODUCTS = frozenset({"matmul", "attention", "convolution"})  # whose work is FLOPs; that of the other kinds is bytes
MODULE_CALLS = 4  # of a module that computes: the call, the operator, the nodes for its backward pass


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


class Parameter(NamedTuple):
    """One tensor of the whole model. ``is_cut``: tensor-parallel ranks hold a piece each."""

    name: str
    shape: tuple[int, ...]
    is_cut: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Work(NamedTuple):
    """Operators of a kind, ``forward`` and ``backward`` of them, each of ``size``: FLOPs, or bytes moved. A CPU's core
    does so in pieces of ``piece``, where that is not 0."""

    kind: str
    size: float
    forward: float
    backward: float
    piece: float = 0.0


@dataclass(slots=True, eq=False)
class Section:
    """A run of layers that a pipeline never cuts, for one Pass on one rank. All but the counts are bytes.

    ``kept`` lives from its forward to its backward pass; ``products`` is what products and attention have made, which
    selective checkpointing keeps in its place; ``entry`` is what flows into a block; ``transient`` comes on top at the
    fullest moment of its backward pass. ``moved`` is read and written by the operators that are no products, forward
    and backward. ``exchanges`` are the payloads of the collectives among tensor-parallel ranks, by operation.
    """

    at: Pass
    prefix: str = ""
    entry: float = 0.0
    parameters: list[Parameter] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    moved: tuple[float, float] = (0.0, 0.0)
    calls: int = 0  # of operators forward; backward are twice as many
    kept: float = 0.0
    products: float = 0.0
    transient: float = 0.0
    exchanges: list[tuple[str, float]] = field(default_factory=list)
    num_modules: int = 0

    @property
    def num_alike(self) -> int:
        """Number of numbers that every tensor-parallel rank holds."""
        return sum(one.size for one in self.parameters if not one.is_cut)

    def num_parameters(self, tensor: int = 1) -> float:
        """Return how many numbers one of ``tensor`` ranks holds of it."""
        return sum(one.size / (tensor if one.is_cut else 1) for one in self.parameters)

    def flops(self) -> float:
        """Return the FLOPs forward and backward that the mathematics asks for. Attention's two products have two each
        backward; the one that its kernel computes again takes time, but does not count."""
        return sum(
            one.size * (one.forward + (2 * one.forward if one.kind == "attention" else one.backward))
            for one in self.works
            if one.kind in PRODUCTS
        )

    # Operators, as a model's file writes them.

    def parameter(self, name: str, *shape: int, is_cut: bool = False) -> None:
        self.parameters.append(Parameter(f"{self.prefix}{name}", shape, is_cut))

    def work(self, kind: str, size: float, backward: float = 2, *, piece: float = 0.0) -> None:
        """One operator forward, and so many of its size backward, of a module."""
        self.works.append(Work(kind, size, 1, backward, piece))
        self.calls += MODULE_CALLS
        self.num_modules += 1

    def move(self, forward: float, backward: float, *, operators: int = 1) -> None:
        """``operators`` that read and write so many bytes together."""
        self.moved = self.moved[0] + forward, self.moved[1] + backward
        self.calls += operators

    def keep(self, num_bytes: float) -> None:
        self.kept += num_bytes

    def need(self, num_bytes: float) -> None:
        """Bytes that the backward pass has on top of what is kept, at one of its moments: the most counts."""
        self.transient = max(self.transient, num_bytes)

    def exchange(self, num_bytes: float, *operations: str) -> None:
        """Collectives of tensor-parallel ranks, forward or backward."""
        if self.at.tensor > 1:
            self.exchanges += [(operation, num_bytes) for operation in operations]

    def linear(
        self, name: str, tokens: float, inputs: int, outputs: int, *, cut: str = "", bias: bool = False, back: int = 2
    ) -> None:
        """A matrix product. ``cut`` is "columns" or "rows" where tensor-parallel ranks have a piece each; ``tokens``
        are then the whole sequence's. ``back`` products of its backward pass: 1 where no gradient of the input is asked
        for. The input that it keeps is written by the caller, which knows whether others keep it too.
        """
        self.parameter(f"{name}.weight", outputs, inputs, is_cut=bool(cut))
        if bias:
            self.parameter(f"{name}.bias", outputs, is_cut=cut == "columns")
        pieces = self.at.tensor if cut else 1
        self.work("matmul", 2.0 * tokens * inputs * outputs / pieces, back)
        self.products += tokens * outputs / (pieces if cut == "columns" else 1) * self.at.small
        if self.at.small != WHOLE:  # weight and input are rounded first, and gradients back again
            weight, flow = inputs * outputs / pieces, tokens * inputs / (pieces if cut == "rows" else 1)
            self.keep(weight * self.at.small)
            self.move(6 * (weight + flow), 6 * (weight + flow), operators=2)

    def norm(self, name: str, rows: float, width: int, *, groups: float = 0, bias: bool = False) -> None:
        """A normalisation of ``rows`` times ``width`` numbers, which keeps its input and two numbers for each row, or
        for each of ``groups`` behind convolutions, where all is small."""
        self.parameter(f"{name}.weight", width)
        if bias:
            self.parameter(f"{name}.bias", width)
        self.keep(rows * width * (self.at.small if groups else WHOLE) + 2 * WHOLE * (groups or rows))
        self.work("group-norm" if groups else "norm", rows * width * WHOLE)

    def add(self, numbers: float) -> None:
        """The sum with the residual stream: nothing is kept, but the gradients of both ways are added."""
        self.move(3 * numbers * WHOLE, 3 * numbers * WHOLE)


class Model(Protocol):
    """Description of a model, written by its file."""

    def __hash__(self) -> int: ...

    @property
    def layers(self) -> int: ...

    def sections(self, at: Pass) -> list[Section]:
        """Return what comes before the blocks, the blocks, and what comes behind them, with the loss. Blocks that are
        alike are one and the same object, with the names of the first."""

    def flow(self, at: Pass) -> float:
        """Return the bytes of what flows from one block to the next, where that is most."""

    def batch_bytes(self, rows: int) -> float:
        """Return the bytes of so many rows as they come from the data."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layout:
    """``rows`` of a rank flow in each of ``accumulate`` passes, in ``microbatches`` pieces where there are stages."""

    mesh: Mesh
    rows: int
    accumulate: int
    microbatches: int
    schedule: str
    precision: str

    @property
    def at(self) -> Pass:
        """Return what flows through a section at once."""
        return Pass(max(1, self.rows // self.microbatches), self.precision, self.mesh.tensor)

    @property
    def chunks(self) -> int:
        """Number of parts of the model that each stage holds."""
        return CHUNKS[self.schedule] if self.mesh.stages > 1 else 1

    @property
    def passes(self) -> int:
        """Number of times that a section computes in a step, forward and backward."""
        return self.accumulate * self.microbatches

    def parts_of(self, stage: int) -> list[int]:
        """Return the parts that ``stage`` holds. They go round in a loop, but for zero-bubble, where they turn back."""
        stages, found = self.mesh.stages, []
        for part in range(stages * self.chunks):
            turn, place = divmod(part, stages)
            turned = stages - 1 - place if self.schedule == "zero-bubble" and turn % 2 else place
            if turned == stage:
                found.append(part)
        return found

    def blocks_of(self, part: int, layers: int) -> range:
        """Return which blocks are in ``part``: equal runs, the longer ones first."""
        short, num_longer = divmod(layers, self.mesh.stages * self.chunks)
        first = part * short + min(part, num_longer)
        return range(first, first + short + (part < num_longer))

    def held_by(self, stage: int, sections: Sequence[T]) -> list[T]:
        """Return which of the model's ``sections`` a stage holds, in the order of the model."""
        layers, last = len(sections) - 2, self.mesh.stages * self.chunks - 1
        found: list[T] = []
        for part in self.parts_of(stage):
            blocks = self.blocks_of(part, layers)
            found += sections[: 1 if part == 0 else 0]
            found += sections[1 + blocks.start : 1 + blocks.stop]
            found += sections[layers + 1 :] if part == last else ()
        return found

    def in_flight(self, stage: int) -> float:
        """Return of how many microbatches a stage keeps activations at once, of all its parts together."""
        stages, number = self.mesh.stages, self.microbatches
        if stages == 1:
            return 1
        if self.schedule == "interleaved":  # Narayanan et al. 2021, section 2.2: its warm-up, in parts
            return min(number * self.chunks, 2 * (stages - stage - 1) + (self.chunks - 1) * stages + 1) / self.chunks
        if self.schedule == "zero-bubble":  # Qi et al. 2024, figure 4: as much as 1F1B's first stage, on each
            return min(number, stages)
        if self.schedule == "1f1b" and number >= stages:
            # The last stage begins its next microbatch before all of the one before is free.
            return min(number, max(2, stages - stage))
        return number


def lay_out(spec: RecipeSpec, num_nodes: int | None = None) -> Layout:
    """Return the layout of a spec on so many nodes. Raises ValueError for what does not multiply or divide."""
    mesh = spec.mesh(num_nodes)
    train, pipeline = spec.train, spec.parallel.pipeline
    pieces = train.accumulate * mesh.num_batch_parts
    if train.batch_size % pieces:
        raise ValueError(f"train.batch_size {train.batch_size} does not divide among {pieces} parts")
    rows = train.batch_size // pieces
    microbatches = 1
    if mesh.stages > 1:
        microbatches = choose_microbatches(pipeline.schedule, mesh.stages, pipeline.microbatches, rows)
    return Layout(mesh, rows, train.accumulate, microbatches, pipeline.schedule, train.precision)


@dataclass(frozen=True, slots=True)
class Stage:
    """Part of the ranks of one pipeline stage: the sections that they hold, of one Pass."""

    index: int
    sections: Sequence[Section]
    flow: float  # bytes of what comes in from the stage before, for one microbatch
    batch: float  # bytes of the rows of a pass

    def counted(self) -> list[tuple[Section, int]]:
        """Return each section once of those that are one object, with how often it is there."""
        return list(Counter(self.sections).items())

    def weights(self, layout: Layout) -> list[float]:
        """Return the bytes of each section's parameters on a rank, before any are sharded."""
        found = {section: section.num_parameters(layout.mesh.tensor) * WHOLE for section in set(self.sections)}
        return [found[section] for section in self.sections]


def stages_of(layout: Layout, sections: Sequence[Section], flow: float, batch: float) -> list[Stage]:
    """Return what each stage holds; ``flow`` is what goes from one block to the next."""
    return [Stage(index, layout.held_by(index, sections), flow, batch) for index in range(layout.mesh.stages)]
