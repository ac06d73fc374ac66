"""Copies of the model, each with its own rows of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard.spec.strategies.messages import BUCKET_BYTES, Message
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
