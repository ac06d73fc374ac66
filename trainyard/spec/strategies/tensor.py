"""Ranks that split each layer, its sequence and its loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainyard.spec.problems import Problem
from trainyard.spec.sections.tasks import GPTModel, ImageModel, Model, RecipeTask
from trainyard.spec.strategies.messages import WHOLE, Message
from trainyard.spec.strategies.strategy import Axis, Place, Strategy, some

if TYPE_CHECKING:
    from trainyard.spec.models import RecipeSpec
    from trainyard.spec.strategies.costs import Layout, Stage

CALLS = 600  # of each module that is cut: DTensor finds out what to do


class Tensor(Strategy):
    name = "tensor"
    place = Place.CUT
    reason = "first of the cuts that change weights: the others wrap, or cut again, the pieces that it leaves"
    axis = Axis(
        "tensor",
        "parallel.tensor",
        "slice",
        alone="tensor parallel, with sequence and loss parallel",
        clause="whose layers tensor ranks split",
        order=4,
        shares_rows=True,
    )

    def problems(self, spec: RecipeSpec) -> Iterator[Problem]:
        """Yield problems of what tensor ranks must divide: heads, and what flows between the blocks."""
        tensor, shares = spec.parallel.tensor, shared_by_tensor(spec.task)
        if tensor > 1 and not shares:
            yield Problem("parallel.tensor", f"{tensor} goes with transformers and MLPs only; accepted here: 1")
        for (path, unit), number in shares.items():
            if number % tensor:
                most = min(shares.values())
                accepted = [one for one in range(1, most + 1) if not any(n % one for n in shares.values())]
                words = f"of which each rank takes its share; accepted: {some(accepted)}"
                yield Problem("parallel.tensor", f"{tensor} does not divide the {number} {unit} of {path}, {words}")

    def sentence(self, spec: RecipeSpec, degree: int) -> str:
        return f"{degree:,} ranks split each layer, its sequence and its loss among them."

    def messages(self, spec: RecipeSpec, layout: Layout, stage: Stage) -> list[Message]:
        degree, passes = layout.mesh.tensor, layout.passes
        found = [
            Message(operation, degree, passes * count * num_bytes, passes * count, is_copied=True)
            for section, count in stage.counted()
            for operation, num_bytes in section.exchanges
        ]
        alike = sum(count * section.num_alike * WHOLE for section, count in stage.counted())
        return [*found, Message("all-reduce", degree, alike, 1)]

    def calls(self, layout: Layout, stage: Stage) -> float:
        return CALLS * sum(section.num_modules for section in stage.sections)


def shared_by_tensor(task: RecipeTask) -> dict[tuple[str, str], int]:
    """Return what tensor-parallel ranks cut of the model, by path and unit; nothing for one that cannot be cut."""
    model = task.model
    if isinstance(model, GPTModel):
        own = {} if model.kv_heads == "auto" else {("task.model.kv_heads", "heads"): int(model.kv_heads)}
        return {("task.model.heads", "heads"): model.heads, **own, ("task.model.context", "tokens"): model.context}
    if is_resnet(model):
        return {}
    if isinstance(model, ImageModel):
        return {("task.model.heads", "heads"): model.heads}
    return {("task.model.width", "features"): model.width}


def is_resnet(model: Model) -> bool:
    return isinstance(model, ImageModel) and model.architecture == "resnet"
