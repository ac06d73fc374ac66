"""Rules across fields: what each field accepts alone and the whole cannot have. Each names its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.spec.models import RecipeSpec
from trainyard.spec.problems import Problem


def broken_rules(spec: RecipeSpec) -> Iterator[Problem]:
    model, train = spec.task.model, spec.train
    if model.width % model.heads:
        yield Problem("task.model.heads", f"{model.heads} heads do not divide the width {model.width} into equal parts")
    elif model.width // model.heads % 2:
        yield Problem(
            "task.model.heads",
            f"width {model.width} / {model.heads} heads = {model.width // model.heads} is odd; each head must be even",
        )
    if train.warmup_steps > train.steps:
        yield Problem("train.warmup_steps", f"{train.warmup_steps} is more than the {train.steps} steps of the run")
    world = spec.world_size()
    if spec.parallel.data not in ("auto", world):
        yield Problem(
            "parallel.data",
            f"{spec.parallel.data} is not the world size: {spec.resources.nodes} nodes x "
            f"{spec.resources.processes_per_node} processes = {world}; accepted: auto or {world}",
        )
    elif train.batch_size % (train.accumulate * world):
        yield Problem(
            "train.batch_size",
            f"{train.batch_size} does not divide by accumulate {train.accumulate} x data degree {world} = "
            f"{train.accumulate * world}",
        )
