"""Gradients of which only the largest entries travel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainyard.spec.strategies.compression import Compression, averaged
from trainyard.spec.strategies.data import num_buckets
from trainyard.spec.strategies.messages import WHOLE, Message

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs.layout import Layout, Stage

INDEX = 4  # bytes of the place of an entry


class TopK(Compression):
    """The entries of largest magnitude, each with its place; the others wait on their rank."""

    name = "topk"
    values = ("topk",)
    keeps_unsent = True

    def clause(self, spec: RecipeSpec, degree: int) -> str:
        return averaged(degree, f"each sending the largest {100 * spec.parallel.topk_ratio:g} % of the entries")

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        mesh = layout.mesh
        gathered = mesh.num_copies * _kept_bytes(spec, stage)
        times = num_buckets(sum(stage.weights(layout)))
        return [Message("all-gather", mesh.num_copies, gathered, times, is_hidden=mesh.is_replicated)]

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        """The residuals, and what a rank gathers with its own part of it."""
        return sum(stage.weights(layout)) + (layout.mesh.num_copies + 1) * _kept_bytes(spec, stage)


def _kept_bytes(spec: RecipeSpec, stage: Stage) -> float:
    """Return what a rank sends to each other: of each tensor the share that is kept, at least one entry."""
    ratio = spec.parallel.topk_ratio
    kept = sum(count * math.ceil(ratio * one.size) for part, count in stage.counted() for one in part.parameters)
    return kept * (WHOLE + INDEX)
