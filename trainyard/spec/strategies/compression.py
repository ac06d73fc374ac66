"""Gradients that travel in fewer bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainyard.spec.problems import Problem
from trainyard.spec.strategies.data import gradient_messages, num_buckets
from trainyard.spec.strategies.messages import WHOLE, Message
from trainyard.spec.strategies.strategy import Limit, Place, Strategy

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs import Layout, Stage

PATH = "parallel.compression"
RANK = 4  # of PowerSGD's factors


class Compression(Strategy):
    """Base of all kinds: they reduce what DDP would send."""

    place = Place.REDUCE
    reason = "before data parallelism, which hands it the buckets of gradients"
    path = PATH
    limit = Limit(frozenset({"data"}), "it is what DDP sends that is compressed", least_data=2, only_every_step=True)

    def problems(self, spec: RecipeSpec) -> Iterator[Problem]:
        """A compression that keeps a residual does not go with fp16."""
        value = spec.parallel.compression
        if self.keeps_unsent and value in self.values and spec.train.precision == "fp16":
            yield Problem(
                PATH,
                f"{value} owes each step what the last has not sent, in gradients of the last step's scale, which "
                "train.precision fp16 changes; accepted here: none, fp16, bf16, or train.precision fp32 or bf16",
            )


class Halved(Compression):
    """Each number in 16 bits."""

    name = "halved"
    values = ("fp16", "bf16")

    def clause(self, spec: RecipeSpec, degree: int) -> str:
        return averaged(degree, f"sent as {spec.parallel.compression}")

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        whole = sum(stage.weights(layout))
        return gradient_messages(layout.mesh, whole / 2, num_buckets(whole))

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        return sum(stage.weights(layout)) / 2


class PowerSGD(Compression):
    """Matrices as two factors of low rank."""

    name = "powersgd"
    values = ("powersgd",)
    keeps_unsent = True

    def clause(self, spec: RecipeSpec, degree: int) -> str:
        return averaged(degree, "compressed by PowerSGD")

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        return gradient_messages(layout.mesh, _factor_bytes(stage), 2 * num_buckets(sum(stage.weights(layout))))

    def copied_bytes(self, spec: RecipeSpec, layout: Layout, stage: Stage, rank: int) -> float:
        """The residuals of matrices."""
        sizes = (count * one.size for part, count in stage.counted() for one in part.parameters if len(one.shape) > 1)
        return sum(sizes) * WHOLE


def averaged(degree: int, how: str) -> str:
    return f"{degree:,} copies of the model share the batch and average their gradients in each step, {how}."


def _factor_bytes(stage: Stage) -> float:
    """Return the bytes of the factors, and of the tensors that they would not shrink."""
    total = 0.0
    for section, count in stage.counted():
        for one in section.parameters:
            rows = one.shape[0]
            small = RANK * (rows + one.size // rows)
            total += count * WHOLE * (small if len(one.shape) > 1 and small < one.size else one.size)
    return total


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
