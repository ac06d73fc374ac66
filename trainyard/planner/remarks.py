"""What a person should know of a plan before it runs, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.formats.figures import size
from trainyard.planner.layout import Layout
from trainyard.planner.machines.hosts import Places
from trainyard.planner.results import Estimate
from trainyard.spec.models import RecipeSpec

TIGHT = 0.9  # of a rank's memory, above which little goes wrong before all does
MOSTLY = 0.5  # of a step
LONG_BUBBLE = 0.3
FULL_GPU_FLOPS = 1e9  # of a pass and layer, below which a GPU waits for its orders


def remarks(
    made: Estimate, spec: RecipeSpec, layout: Layout, places: Places, assumptions: Sequence[str]
) -> Iterator[str]:
    yield from _of_memory(made, spec)
    yield from _of_ranks(spec, layout, places)
    yield from _of_time(made, spec, layout, places)
    yield from assumptions
    if not made.is_measured:
        yield "Speeds are assumed: run the communication benchmark on this cluster to measure them."


def _of_memory(made: Estimate, spec: RecipeSpec) -> Iterator[str]:
    over = [memory.total - limit for memory, limit in zip(made.memory, made.memory_limits, strict=True)]
    worst = max(range(len(over)), key=over.__getitem__)
    memory, limit = made.memory[worst], made.memory_limits[worst]
    where = f"Rank {worst}" if len(over) > 1 else "The rank"
    if over[worst] > 0:
        yield (
            f"Does not fit: {where.lower()} needs {size(memory.total)}, {size(over[worst])} more than the "
            f"{size(limit)} that it has; {_relief(made, spec, worst)}."
        )
    elif memory.total > TIGHT * limit:
        yield f"Tight: {where.lower()} needs {size(memory.total)} of the {size(limit)} that it has."


def _relief(made: Estimate, spec: RecipeSpec, rank: int) -> str:
    memory = made.memory[rank]
    states = memory.parameters + memory.gradients + memory.optimizer
    if memory.activations < states:
        return "parallel.shard or parallel.tensor would divide the weights, task.model.width makes fewer of them"
    if spec.train.activation_checkpointing == "none":
        return "train.activation_checkpointing full, a larger train.accumulate or a smaller train.batch_size takes less"
    return "a larger train.accumulate or a smaller train.batch_size takes less"


def _of_ranks(spec: RecipeSpec, layout: Layout, places: Places) -> Iterator[str]:
    mesh = layout.mesh
    if places.crowding > 1:
        yield (
            f"There are {places.crowding:.3g} ranks for each core of a machine: they take turns, and a step takes "
            "as much longer."
        )
    if mesh.tensor > 1 and places.are_apart(range(mesh.tensor)):
        yield (
            f"The {mesh.tensor} tensor ranks are on different machines and wait for the network several times in each "
            "layer: resources.processes_per_node would bring them together."
        )


def _of_time(made: Estimate, spec: RecipeSpec, layout: Layout, places: Places) -> Iterator[str]:
    time = made.step_time
    if time.total and time.communication > MOSTLY * time.total:
        share = 100 * time.communication / time.total
        yield (
            f"Ranks wait for each other's messages in {share:.0f} % of a step: a larger train.batch_size, or "
            "train.accumulate, makes more of each message."
        )
    if made.bubble > LONG_BUBBLE:
        yield (
            f"The stages wait for each other in {100 * made.bubble:.0f} % of a step: more "
            "parallel.pipeline.microbatches make it less."
        )
    per_layer = made.flops_per_step / layout.mesh.world_size / layout.passes / max(1, spec.task.model.layers)
    if places.is_gpu and per_layer < FULL_GPU_FLOPS:
        yield (
            f"{layout.at.rows} {'row' if layout.at.rows == 1 else 'rows'} a pass do not fill a GPU, which then waits "
            "for its orders: train.batch_size can grow at little cost."
        )
