"""Copies of the model, each with its own rows of the batch, and ranks that share one copy's weights, gradients and
optimizer state (FSDP2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainyard.spec.strategies.messages import BUCKET_BYTES, SMALL, WHOLE, Message
from trainyard.spec.strategies.strategy import Axis, Place, Strategy

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs import Layout, Stage
    from trainyard.spec.strategies.mesh import Mesh


class DataParallel(Strategy):
    """DDP where ranks hold whole models, else an average of the gradients behind the last backward pass."""

    name = "data_parallel"
    place = Place.REDUCE
    reason = "outermost: it must see the gradients that all the cuts leave to this rank"
    axis = Axis(
        "data",
        "parallel.data",
        "copy",
        alone="data parallel (DDP)",
        clause="whose copies share the batch",
        order=1,
        cuts_batch=True,
        has_copies=True,
    )

    def is_used(self, spec: RecipeSpec, mesh: Mesh) -> bool:
        return mesh.num_copies > 1

    def sentence(self, spec: RecipeSpec, degree: int) -> str:
        return f"{degree:,} copies of the model share the batch and average their gradients in each step."

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        if spec.parallel.synchronization.kind != "every-step" or spec.parallel.compression != "none":
            return []
        whole = sum(stage.weights(layout)) / layout.mesh.shard
        return gradient_messages(layout.mesh, whole, num_buckets(whole))

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        mesh = layout.mesh
        if mesh.is_replicated or mesh.shard > 1 or spec.parallel.synchronization.kind != "every-step":
            return 0.0
        return min(sum(stage.weights(layout)), BUCKET_BYTES)  # gradients are averaged in buckets that are copies


def num_buckets(whole: float) -> float:
    """Return in how many messages DDP sends gradients of so many bytes: the first one is small."""
    return max(1.0, whole / BUCKET_BYTES) + (1 if whole > 2**20 else 0)


def gradient_messages(mesh: Mesh, num_bytes: float, times: float) -> list[Message]:
    """Return the averages of gradients among the copies of the model. DDP sends while backward computes."""
    return [Message("all-reduce", mesh.num_copies, num_bytes, times, is_hidden=mesh.is_replicated)]


GATHERED_BLOCKS = 2  # at once: the one that computes, and the next, fetched meanwhile
CALLS = 400  # of each sharded block and pass: its hooks, copies into and out of what travels


class Shard(Strategy):
    name = "shard"
    place = Place.CUT
    reason = "last of the cuts: it shards the weights that tensor parallelism leaves, and hooks the compiled blocks"
    axis = Axis(
        "shard",
        "parallel.shard",
        "shard",
        alone="sharded data parallel (FSDP2, ZeRO-3; ZeRO-2 without reshard_after_forward; HSDP with `data`)",
        clause="whose weights are sharded",
        order=3,
        cuts_batch=True,
    )

    def sentence(self, spec: RecipeSpec, degree: int) -> str:
        until = "drop it again after use" if drops_weights(spec) else "keep it until the backward pass"
        return f"{degree:,} ranks share one copy's weights: they gather a block when it is needed and {until}."

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        mesh, weights = layout.mesh, stage.weights(layout)
        blocks, ends = sum(weights[1:-1]), weights[0] + weights[-1]
        small = SMALL[spec.train.precision] / WHOLE
        again = 2 if drops_weights(spec) else 1
        passes = layout.accumulate if again == 2 else 1  # ranks that keep weights gather them once a step
        groups = len(weights) - 1
        return [
            Message("all-gather", mesh.shard, passes * (again * blocks * small + ends), passes * again * groups, True),
            Message("reduce-scatter", mesh.shard, passes * (blocks + ends), passes * groups, True),
        ]

    def gathered_bytes(self, spec: RecipeSpec, layout: Layout, weights: Sequence[float]) -> float:
        small = SMALL[spec.train.precision] / WHOLE
        blocks = [size * small for size in weights[1:-1]] or [0.0]
        ends = weights[0] + weights[-1]
        if drops_weights(spec):
            return ends + (GATHERED_BLOCKS + 1) * max(blocks)
        return ends + sum(blocks) + max(blocks)

    def calls(self, layout: Layout, stage: Stage) -> float:
        return CALLS * len(stage.sections)


def drops_weights(spec: RecipeSpec) -> bool:
    """Return whether gathered weights are dropped between forward and backward: a pipeline always keeps them."""
    return spec.parallel.reshard_after_forward and spec.parallel.pipeline.stages == 1
