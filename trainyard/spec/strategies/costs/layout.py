"""Layout of rows and layers: how many rows flow at once, and which sections a stage of a pipeline holds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies.costs.sections import Pass, Section
from trainyard.spec.strategies.mesh import Mesh
from trainyard.spec.strategies.messages import WHOLE
from trainyard.spec.strategies.microbatches import CHUNKS, choose_microbatches

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
