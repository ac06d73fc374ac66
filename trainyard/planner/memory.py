"""What a rank holds at the fullest moment of a step, by part.

Weights, gradients and moments: Rajbhandari et al. 2020, "ZeRO", section 3.1, here with weights of 4 bytes throughout.
Activations: the sections' own counts. A step is walked through backwards, section by section, for the moment at which
what is still kept, what backward needs just then, and the gradients that are there already are most together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trainyard.planner.architectures.tape import SMALL, WHOLE, Section
from trainyard.planner.layout import Layout
from trainyard.planner.machines.rates import Rates
from trainyard.planner.results import Memory
from trainyard.spec.models import RecipeSpec

MOMENTS = {"adamw": 2, "sgd": 1, "muon": 2}
BUCKET_BYTES = 25 * 2**20  # of what DDP's substitute sends at once
# What stays taken on a heap with holes, as parts of what comes and goes: set by plans, docs/decisions/planner.md.
WIDEST = 0.22  # of the section that keeps most
AGAIN = 0.44  # of the blocks that are computed again…
FILLED_BYTES = 7 * 2**20  # …of which what comes after fills so much
TRAVELLED = 2.3  # times the gradients of shards, as they travel and as they came
PASSES = 0.6  # of what a pass keeps, where a step has several
GATHERED_BLOCKS = 2  # of FSDP at once: the one that computes, and the next, fetched meanwhile


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
    gathered = _gathered(spec, layout, weights, is_holed=is_holed)
    if is_holed:
        kept += _left_between(spec, layout, stage, kept)
    return Memory(
        base=base + rates.workspace_bytes,
        parameters=own + gathered,
        gradients=gradients,
        optimizer=moments,
        activations=rates.heap * kept + _batches(layout, stage),
        copies=_copies(spec, layout, stage, whole, moments, rank, is_gpu=is_gpu),
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


def _gathered(spec: RecipeSpec, layout: Layout, weights: Sequence[float], *, is_holed: bool) -> float:
    """Return the bytes of weights that FSDP has gathered at once, with the buffers they came in. Where the heap has
    holes, those of each block lie between activations that stay."""
    shard = layout.mesh.shard
    if shard == 1:
        return 0.0
    small = SMALL[spec.train.precision] / WHOLE
    blocks = [size * small for size in weights[1:-1]] or [0.0]
    ends = weights[0] + weights[-1]
    if spec.parallel.reshard_after_forward and layout.mesh.stages == 1:
        return ends + (2 * sum(blocks) if is_holed else (GATHERED_BLOCKS + 1) * max(blocks))
    return ends + sum(blocks) + max(blocks)


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


def _copies(
    spec: RecipeSpec, layout: Layout, stage: Stage, whole: float, moments: float, rank: int, *, is_gpu: bool
) -> float:
    """Return what strategy and checkpoint hold beside."""
    mesh, kind = layout.mesh, spec.parallel.synchronization.kind
    number = {"every-step": 0, "local-sgd": 1, "diloco": 3, "parameter-server": 2}[kind]
    if kind == "parameter-server" and rank == 0:
        number = 3 + mesh.world_size - 1  # own, the server's weights and gradient, a message for each of the others
    found = number * whole
    compression = spec.parallel.compression
    if compression == "powersgd":
        found += sum(
            count * one.size * WHOLE for part, count in stage.counted() for one in part.parameters if len(one.shape) > 1
        )
    elif compression != "none":
        found += whole / 2
    if mesh.data > 1 and not _is_ddp(spec, layout) and mesh.shard == 1 and kind == "every-step":
        found += min(whole, BUCKET_BYTES)  # gradients are averaged by hand, in buckets that are copies
    if spec.checkpoint.every_steps and not is_gpu:  # on a GPU it lies in the host's memory
        has_own = kind in ("local-sgd", "diloco")
        copies = mesh.data if kind != "parameter-server" else mesh.world_size
        found += moments + whole / copies if has_own else (whole / mesh.shard + moments) / copies
    return found


def _batches(layout: Layout, stage: Stage) -> float:
    """Return the bytes of the rows that are at hand, and of a pipeline's buffers: one of each microbatch both ways."""
    buffers = 0.0
    if layout.mesh.stages > 1:
        buffers = 2 * layout.microbatches * stage.flow * layout.chunks
    return 2 * stage.batch + buffers


def _is_ddp(spec: RecipeSpec, layout: Layout) -> bool:
    mesh = layout.mesh
    alone = mesh.shard == mesh.tensor == mesh.stages == 1
    return alone and mesh.data > 1 and spec.parallel.synchronization.kind == "every-step"


def stages_of(layout: Layout, sections: Sequence[Section], flow: Sequence[float], batch: float) -> list[Stage]:
    """Return what each stage holds; ``flow`` is what leaves each block."""
    widest = max(flow, default=0.0) if layout.mesh.stages > 1 else 0.0
    return [Stage(index, layout.held_by(index, sections), widest, batch) for index in range(layout.mesh.stages)]
