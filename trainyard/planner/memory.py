"""What a rank holds at the fullest moment of a step, by part.

Weights, gradients and moments: Rajbhandari et al. 2020, "ZeRO", section 3.1, here with weights of 4 bytes throughout.
Activations: the sections' own counts. A step is walked through backwards, section by section, for the moment at which
what is still kept, what backward needs just then, and the gradients that are there already are most together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.planner.architectures.tape import WHOLE, Section
from trainyard.planner.layout import Layout
from trainyard.planner.machines.rates import Rates
from trainyard.planner.results import Memory
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used

MOMENTS = {"adamw": 2, "sgd": 1, "muon": 2}
# What stays taken on a heap with holes, as parts of what comes and goes: set by plans, docs/decisions/planner.md.
WIDEST = 0.22  # of the section that keeps most
AGAIN = 0.44  # of the blocks that are computed again…
FILLED_BYTES = 7 * 2**20  # …of which what comes after fills so much
TRAVELLED = 2.3  # times the gradients of shards, as they travel and as they came
PASSES = 0.6  # of what a pass keeps, where a step has several


@dataclass(frozen=True, slots=True)
class Stage:
    """What the ranks of one stage have: the sections that they hold, of one Pass, and of them the blocks."""

    index: int
    sections: Sequence[Section]
    flow: float  # bytes of what comes in from the stage before, for one microbatch
    batch: float  # bytes of the rows of a pass

    def weights(self, layout: Layout) -> list[float]:
        """Return the bytes of each section's parameters on a rank, before any are sharded."""
        found = {id(section): section.num_parameters(layout.mesh.tensor) * WHOLE for section in self.unlike()}
        return [found[id(section)] for section in self.sections]

    def unlike(self) -> list[Section]:
        """Return each section once of those that are one object."""
        return list({id(section): section for section in self.sections}.values())

    def counted(self) -> list[tuple[Section, int]]:
        """Return them with how often they are there."""
        counts = Counter(map(id, self.sections))
        return [(section, counts[id(section)]) for section in self.unlike()]


def stage_memory(
    spec: RecipeSpec, layout: Layout, stage: Stage, rank: int, rates: Rates, base: float, *, is_gpu: bool
) -> Memory:
    """Return what ``rank``, one of ``stage``, holds beside ``base``."""
    mesh, weights = layout.mesh, stage.weights(layout)
    whole = sum(weights)
    own = whole / mesh.shard
    moments = _moments(spec, stage, layout, rank) / mesh.shard
    kept, gradients = _fullest(spec, layout, stage, weights)
    is_holed = rates.heap > 1
    ways = used(spec, mesh)
    gathered = sum(way.gathered_bytes(spec, layout, weights, is_holed=is_holed) for way in ways)
    if is_holed:
        kept += _left_between(spec, layout, stage, kept)
    return Memory(
        base=base + rates.workspace_bytes,
        parameters=own + gathered,
        gradients=gradients,
        optimizer=moments,
        activations=rates.heap * kept + 2 * stage.batch + sum(way.buffer_bytes(layout, stage) for way in ways),
        copies=sum(way.copied_bytes(spec, layout, stage, rank) for way in ways)
        + _checkpoint_bytes(spec, layout, own, moments, is_gpu=is_gpu),
    )


def _fullest(spec: RecipeSpec, layout: Layout, stage: Stage, weights: Sequence[float]) -> tuple[float, float]:
    """Return activations and gradients of the moment when they are most together."""
    kind, mesh = spec.train.activation_checkpointing, layout.mesh
    kept = [_kept(section, kind) for section in stage.sections]
    in_flight = layout.in_flight(stage.index)
    others = (in_flight - 1) * sum(kept)
    # Gradients of earlier passes are whole already; DDP's have their place in buckets from the first step on.
    whole = sum(weights)
    is_there = _is_ddp(spec, layout) or layout.passes > 1
    most = (0.0, whole / mesh.shard if is_there else 0.0)
    made, below = 0.0, sum(kept)
    for index in range(len(kept) - 1, -1, -1):
        section = stage.sections[index]
        transient = section.transient + (section.kept - kept[index] if kind != "none" and section.entry else 0.0)
        activations = others + below + transient
        below -= kept[index]
        gradients = whole / mesh.shard if is_there else made / mesh.shard
        if mesh.shard > 1:  # those of the block that is at work are whole, and so is what is sent of them
            gradients += 2 * weights[index]
        elif layout.passes > 1:
            gradients += weights[index]
        if activations + gradients > sum(most):
            most = activations, gradients
        made += weights[index]
    if made / mesh.shard > sum(most):
        most = (0.0, made / mesh.shard)
    return most


def _kept(section: Section, kind: str) -> float:
    """Return what a section keeps; activation checkpointing is that of blocks, which have an entry."""
    if kind == "none" or not section.entry:
        return section.kept
    return section.entry + (section.dear if kind == "selective" else 0.0)


def _left_between(spec: RecipeSpec, layout: Layout, stage: Stage, kept: float) -> float:
    """Return the bytes of what comes and goes in places that nothing else fits into: on a heap they stay taken.

    Some of the widest section; two fifths of what tensor-parallel ranks exchange; what blocks leave between their
    entries when they are computed again, or, where that is more, whole gradients of shards, as they travel and as they
    came; what is rounded for products in another precision; of what a pass keeps, where others come after it; and one
    gradient on its way into DDP's bucket.
    """
    found = sum(count * num_bytes for section, count in stage.counted() for _, num_bytes in section.exchanges) / 2.6
    found += WIDEST * max(section.kept for section in stage.sections)
    blocks = [section.kept for section in stage.sections if section.entry]
    again = max(blocks, default=0.0) if spec.train.activation_checkpointing == "selective" else 0.0
    if spec.train.activation_checkpointing == "full":
        again = max(0.0, AGAIN * sum(blocks) - FILLED_BYTES)
    found += max(again, TRAVELLED * sum(stage.weights(layout)[1:-1]) if layout.mesh.shard > 1 else 0.0)
    if spec.train.precision != "fp32":
        found += sum(count * section.kept for section, count in stage.counted()) / 4
    if layout.accumulate > 1:
        found += PASSES * kept
    if _is_ddp(spec, layout):
        found += 2 * max(section.widest for section in stage.sections)
    return found


def _moments(spec: RecipeSpec, stage: Stage, layout: Layout, rank: int) -> float:
    """Return the bytes of the optimizer's state, unsharded. Ranks that push gradients to a server have none."""
    if spec.parallel.synchronization.kind == "parameter-server" and rank > 0:
        return 0.0
    number, tensor = MOMENTS[spec.train.optimizer], layout.mesh.tensor
    total = sum(number * WHOLE * count * section.num_parameters(tensor) for section, count in stage.counted())
    if spec.train.optimizer != "muon":
        return total
    for section, count in stage.counted():  # of which the matrices of blocks have one moment only
        matrices = sum(one.size for one in section.parameters if len(one.shape) == 2)
        total -= count * WHOLE * matrices if section.entry else 0.0
    return total


def _checkpoint_bytes(spec: RecipeSpec, layout: Layout, own: float, moments: float, *, is_gpu: bool) -> float:
    """Return the last checkpoint's snapshot, of which copies of the model keep a part each; on a GPU it lies in the
    host's memory."""
    if not spec.checkpoint.every_steps or is_gpu:
        return 0.0
    mesh = layout.mesh
    if any(way.has_own_optimizers for way in used(spec, mesh)):
        return moments + own / mesh.num_copies
    return (own + moments) / mesh.num_copies


def _is_ddp(spec: RecipeSpec, layout: Layout) -> bool:
    return layout.mesh.is_replicated and spec.parallel.synchronization.kind == "every-step"


def stages_of(layout: Layout, sections: Sequence[Section], flow: Sequence[float], batch: float) -> list[Stage]:
    """Return what each stage holds; ``flow`` is what leaves each block."""
    widest = max(flow, default=0.0) if layout.mesh.stages > 1 else 0.0
    return [Stage(index, layout.held_by(index, sections), widest, batch) for index in range(layout.mesh.stages)]
