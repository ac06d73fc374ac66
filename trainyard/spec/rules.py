"""Rules across fields: what each field accepts alone and the whole cannot have. Each names its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.spec.models import RecipeSpec
from trainyard.spec.problems import Problem
from trainyard.spec.products import degrees_of, product_problems


def broken_rules(spec: RecipeSpec) -> Iterator[Problem]:
    yield from _model_problems(spec)
    if spec.train.warmup_steps > spec.train.steps:
        yield Problem(
            "train.warmup_steps", f"{spec.train.warmup_steps} is more than the {spec.train.steps} steps of the run"
        )
    degrees = list(_degree_problems(spec))
    yield from degrees
    if not degrees:
        yield from product_problems(spec)
        yield from _batch_problems(spec)


def _model_problems(spec: RecipeSpec) -> Iterator[Problem]:
    model, parallel = spec.task.model, spec.parallel
    if model.width % model.heads:
        yield Problem("task.model.heads", f"{model.heads} heads do not divide the width {model.width} into equal parts")
    elif model.width // model.heads % 2:
        yield Problem(
            "task.model.heads",
            f"width {model.width} / {model.heads} heads = {model.width // model.heads} is odd; each head must be even",
        )
    if model.heads % parallel.tensor:
        yield Problem(
            "parallel.tensor",
            f"{parallel.tensor} does not divide the {model.heads} heads of task.model.heads, of which each rank "
            "takes its share",
        )
    elif model.context % parallel.tensor:
        yield Problem(
            "parallel.tensor",
            f"{parallel.tensor} does not divide the {model.context} tokens of task.model.context, of which each rank "
            "takes its share",
        )
    num_parts = parallel.pipeline.stages * num_chunks(spec)
    if num_parts > model.layers:
        words = (
            f" x {num_chunks(spec)} parts on each rank ({parallel.pipeline.schedule})" if num_chunks(spec) > 1 else ""
        )
        yield Problem(
            "parallel.pipeline.stages",
            f"{parallel.pipeline.stages} stages{words} are more than the {model.layers} layers of task.model.layers",
        )


def num_chunks(spec: RecipeSpec) -> int:
    """Return how many parts of the model each stage's ranks hold: two where the schedule goes round twice."""
    is_split = spec.parallel.pipeline.stages > 1
    return 2 if is_split and spec.parallel.pipeline.schedule in ("interleaved", "zero-bubble") else 1


def _degree_problems(spec: RecipeSpec) -> Iterator[Problem]:
    parallel, resources, world = spec.parallel, spec.resources, spec.world_size()
    inner = parallel.shard * parallel.tensor * parallel.pipeline.stages
    words = f"shard {parallel.shard} x tensor {parallel.tensor} x pipeline.stages {parallel.pipeline.stages} = {inner}"
    ranks = f"{resources.nodes} nodes x {resources.processes_per_node} processes = {world}"
    if parallel.data == "auto":
        if world % inner:
            yield Problem("parallel", f"{words} does not divide the world size: {ranks}")
    elif int(parallel.data) * inner != world:
        accepted = f"auto or {world // inner}" if world % inner == 0 else "none with these degrees"
        yield Problem(
            "parallel.data",
            f"{parallel.data} x {words.replace(' = ' + str(inner), '')} = {int(parallel.data) * inner} is not the "
            f"world size: {ranks}; accepted: {accepted}",
        )


def _batch_problems(spec: RecipeSpec) -> Iterator[Problem]:
    train, pipeline = spec.train, spec.parallel.pipeline
    degrees = degrees_of(spec)
    copies = degrees["data"] * degrees["shard"]
    pieces = train.accumulate * copies
    if train.batch_size % pieces:
        yield Problem(
            "train.batch_size",
            f"{train.batch_size} does not divide by accumulate {train.accumulate} x data degree {copies} = {pieces}",
        )
    elif isinstance(pipeline.microbatches, int) and train.batch_size // pieces % pipeline.microbatches:
        yield Problem(
            "parallel.pipeline.microbatches",
            f"{pipeline.microbatches} does not divide the {train.batch_size // pieces} samples that each copy of the "
            f"model has in a pass (batch_size {train.batch_size} / {pieces})",
        )
