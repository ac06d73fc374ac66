"""What a person should know of a plan before it runs, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard.formats.figures import between, size
from trainyard.planner.machines.hosts import Places
from trainyard.planner.results import Estimate, Fit, Memory
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies.costs.layout import Layout

MOSTLY = 0.5  # of a step
LONG_BUBBLE = 0.3
FULL_GPU_FLOPS = 1e9  # of a pass and layer, below which a GPU waits for its orders


def remarks(
    made: Estimate, spec: RecipeSpec, layout: Layout, places: Places, assumptions: Sequence[str]
) -> Iterator[str]:
    yield from _of_memory(made, spec)
    yield from _of_ranks(layout, places)
    yield from _of_time(made, spec, layout, places)
    yield from assumptions
    if not made.is_measured:
        yield "Speeds are assumed: run the communication benchmark on this cluster to measure them."


def _of_memory(made: Estimate, spec: RecipeSpec) -> Iterator[str]:
    rank = max(range(len(made.memory)), key=lambda one: made.memory[one].total - made.memory_limits[one])
    memory, limit = made.memory[rank], made.memory_limits[rank]
    fit = memory.fit(limit)
    if fit is not Fit.FITS:
        yield (
            f"{fit.value.capitalize()}: {f'rank {rank}' if len(made.memory) > 1 else 'the rank'} needs "
            f"{between(memory.low, memory.high, size)}, and has {size(limit)}; {_relief(memory, spec)}."
        )


def _relief(memory: Memory, spec: RecipeSpec) -> str:
    if memory.activations + memory.margin < memory.parameters + memory.gradients + memory.optimizer:
        return "parallel.shard or parallel.tensor would divide the weights, task.model.width makes fewer of them"
    if spec.train.activation_checkpointing == "none":
        return "train.activation_checkpointing full, a larger train.accumulate or a smaller train.batch_size takes less"
    return "a larger train.accumulate or a smaller train.batch_size takes less"


def _of_ranks(layout: Layout, places: Places) -> Iterator[str]:
    tensor = layout.mesh.tensor
    if places.crowding > 1:
        yield (
            f"There are {places.crowding:.3g} ranks for each core of a machine: they take turns, and a step takes "
            "as much longer."
        )
    if tensor > 1 and places.are_apart(range(tensor)):
        yield (
            f"The {tensor} tensor ranks are on different machines and wait for the network several times in each "
            "layer: resources.processes_per_node would bring them together."
        )


def _of_time(made: Estimate, spec: RecipeSpec, layout: Layout, places: Places) -> Iterator[str]:
    time = made.step_time
    if time.total and time.communication > MOSTLY * time.total:
        yield (
            f"Ranks wait for each other's messages in {100 * time.communication / time.total:.0f} % of a step: a "
            "larger train.batch_size, or train.accumulate, makes more of each message."
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
