"""What a rank holds at the fullest moment of a step, by part.

Weights, gradients and moments: Rajbhandari et al. 2020, "ZeRO", section 3.1, here with weights of 4 bytes throughout.
Activations: the sections' own counts (Korthikanti et al. 2022, section 4.1). On top comes one calibrated margin for the
allocator; docs/decisions/planner.md says how it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainyard.planner.results import Memory
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used
from trainyard.spec.strategies.costs.layout import Layout, Stage
from trainyard.spec.strategies.costs.sections import Section
from trainyard.spec.strategies.messages import WHOLE

MOMENTS = {"adamw": 2, "sgd": 1, "muon": 2}
MARGIN = 0.7  # of what a pass makes and frees again: a CPU's heap keeps so much of it that nothing else fits into


def stage_memory(spec: RecipeSpec, layout: Layout, stage: Stage, rank: int, base: float, *, is_gpu: bool) -> Memory:
    """Return what ``rank``, one of ``stage``, holds beside ``base``."""
    mesh, weights, strategies = layout.mesh, stage.weights(layout), used(spec, layout.mesh)
    own, moments = sum(weights) / mesh.shard, _moments(spec, stage, layout, rank) / mesh.shard
    activations, gradients = _fullest(spec, layout, stage, weights)
    copies = sum(one.copied_bytes(spec, layout, stage, rank) for one in strategies)
    if (
        spec.checkpoint.every_steps and not is_gpu
    ):  # the last one's snapshot, and two in memory; a GPU's lie in the host's
        shared = 0.0 if any(one.has_own_optimizers for one in strategies) else moments
        copies += ((own + shared) / mesh.num_copies + moments - shared) * (
            3 if spec.checkpoint.replicate_every_steps else 1
        )
    return Memory(
        base=base,
        parameters=own + sum(one.gathered_bytes(spec, layout, weights) for one in strategies),
        gradients=gradients,
        optimizer=moments,
        activations=activations + 2 * stage.batch + sum(one.buffer_bytes(layout, stage) for one in strategies),
        copies=copies,
        margin=0.0 if is_gpu else MARGIN * _made_and_freed(spec, layout, stage, weights),
    )


def _fullest(spec: RecipeSpec, layout: Layout, stage: Stage, weights: Sequence[float]) -> tuple[float, float]:
    """Return activations and gradients of the moment when they are most together: a step is walked through backwards,
    section by section."""
    kind, shard = spec.train.activation_checkpointing, layout.mesh.shard
    kept = [_kept(section, kind) for section in stage.sections]
    # Gradients of earlier passes are whole already; DDP's have their place in buckets from the first step on.
    is_ddp = layout.mesh.is_replicated and spec.parallel.synchronization.kind == "every-step"
    are_there = is_ddp or layout.passes > 1
    most, made = (0.0, sum(weights) / shard), 0.0
    below = layout.in_flight(stage.index) * sum(kept)
    for section, own, weight in reversed(list(zip(stage.sections, kept, weights, strict=True))):
        again = section.kept - own if section.entry else 0.0  # what activation checkpointing computes once more
        gradients = (sum(weights) if are_there else made) / shard
        if shard > 1:  # those of the block that is at work are whole, and so is what is sent of them
            gradients += 2 * weight
        elif layout.passes > 1:
            gradients += weight
        most = max(most, (below + section.transient + again, gradients), key=sum)
        below -= own
        made += weight
    return most


def _kept(section: Section, kind: str) -> float:
    """Return what a section keeps; activation checkpointing is that of blocks, which have an entry."""
    if kind == "none" or not section.entry:
        return section.kept
    return section.entry + (section.products if kind == "selective" else 0.0)


def _made_and_freed(spec: RecipeSpec, layout: Layout, stage: Stage, weights: Sequence[float]) -> float:
    """Return the bytes of tensors that come and go in a step: activations, also those that are computed again; what is
    gathered and scattered; gradients. Of several passes two count: the first leaves gradients, so that the second finds
    no place where the first had its own; later ones do."""
    exchanged = sum(
        message.num_bytes
        for strategy in used(spec, layout.mesh)
        for message in strategy.messages(spec, layout, stage)
        if message.operation in ("all-gather", "reduce-scatter")
    )
    kept = sum(count * section.kept for section, count in stage.counted())
    in_a_pass = layout.in_flight(stage.index) * (kept + exchanged / layout.passes)
    return min(2, layout.accumulate) * in_a_pass + sum(weights)


def _moments(spec: RecipeSpec, stage: Stage, layout: Layout, rank: int) -> float:
    """Return the bytes of the optimizer's state, unsharded. Ranks that push gradients to a server have none."""
    if spec.parallel.synchronization.kind == "parameter-server" and rank > 0:
        return 0.0
    total = MOMENTS[spec.train.optimizer] * sum(stage.weights(layout))
    if spec.train.optimizer == "muon":  # of which the matrices of blocks have one moment only
        blocks = [section for section in stage.sections if section.entry]
        total -= WHOLE * sum(one.size for section in blocks for one in section.parameters if len(one.shape) == 2)
    return total
