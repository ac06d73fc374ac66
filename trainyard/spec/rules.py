"""Rules across fields: what each field accepts alone and the whole cannot have. Each names its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.spec.form import form_fields
from trainyard.spec.models import RecipeSpec
from trainyard.spec.pipelines import CHUNKS, choose_microbatches, whole_backward_problem
from trainyard.spec.problems import Problem, show
from trainyard.spec.products import product_problems


def broken_rules(spec: RecipeSpec) -> Iterator[Problem]:
    yield from _idle_problems(spec)
    yield from _model_problems(spec)
    yield from _train_problems(spec)
    degrees = list(_degree_problems(spec))
    yield from degrees
    if not degrees:
        yield from product_problems(spec)
        yield from _batch_problems(spec)
        yield from _backward_problems(spec)


def num_chunks(spec: RecipeSpec) -> int:
    """Return how many parts of the model each stage's ranks hold: two where the schedule goes round twice."""
    pipeline = spec.parallel.pipeline
    return CHUNKS[pipeline.schedule] if pipeline.stages > 1 else 1


def _idle_problems(spec: RecipeSpec) -> Iterator[Problem]:
    """What was set and nothing would read: silence about it would be a promise that is not kept."""
    values = spec.resolved()
    for info in form_fields():
        if info.needs is None or "recipe" not in info.tasks:
            continue
        value, other = _look(values, info.path), _look(values, info.needs.path)
        if value != info.default and not info.needs.is_met(other):
            yield Problem(
                info.path,
                f"{show(value)} would be ignored: it goes with {info.needs}, and {info.needs.path} is {show(other)}; "
                f"accepted here: {show(info.default)}, or leave it out",
            )


def _look(values: object, path: str) -> object:
    for part in path.split("."):
        assert isinstance(values, dict), f"nothing is at {path}"
        values = values[part]
    return values


def _model_problems(spec: RecipeSpec) -> Iterator[Problem]:
    model, parallel = spec.task.model, spec.parallel
    if model.width % model.heads:
        yield Problem("task.model.heads", f"{model.heads} heads do not divide the width {model.width} into equal parts")
    elif model.width // model.heads % 2:
        yield Problem(
            "task.model.heads",
            f"width {model.width} / {model.heads} heads = {model.width // model.heads} is odd; each head must be even",
        )
    for what, number in (("heads", model.heads), ("context", model.context)):
        if number % parallel.tensor:
            unit = "heads" if what == "heads" else "tokens"
            yield Problem(
                "parallel.tensor",
                f"{parallel.tensor} does not divide the {number} {unit} of task.model.{what}, of which each rank "
                f"takes its share; accepted: {_some(_divisors_of_both(model.heads, model.context))}",
            )
    stages, chunks = parallel.pipeline.stages, num_chunks(spec)
    if stages * chunks > model.layers:
        words = f" x {chunks} parts on each ({parallel.pipeline.schedule}) = {stages * chunks}" if chunks > 1 else ""
        most = max(1, model.layers // chunks)
        yield Problem(
            "parallel.pipeline.stages",
            f"{stages} stages{words} are more than the {model.layers} layers of task.model.layers; "
            f"accepted: {'1' if most == 1 else f'1 to {most}'}",
        )


def _divisors_of_both(first: int, second: int) -> list[int]:
    return [number for number in range(1, min(first, second) + 1) if first % number == 0 and second % number == 0]


def _some(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:12])) + (", …" if len(numbers) > 12 else "")


def _train_problems(spec: RecipeSpec) -> Iterator[Problem]:
    train = spec.train
    if train.warmup_steps > train.steps:
        yield Problem("train.warmup_steps", f"{train.warmup_steps} is more than the {train.steps} steps of the run")
    if train.precision == "fp16" and spec.parallel.compression == "powersgd":
        yield Problem(
            "parallel.compression",
            "powersgd owes each step what the last has not sent, in gradients of the last step's scale, which "
            "train.precision fp16 changes; accepted here: none, fp16, bf16, or train.precision fp32 or bf16",
        )
    if spec.early_stopping.patience and not train.validate_every_steps:
        yield Problem(
            "early_stopping.patience",
            f"{spec.early_stopping.patience} counts validations, and with train.validate_every_steps 0 there is none "
            "before the last step; accepted here: 0, or validate every so many steps",
        )
    _, _, step = spec.checkpoint.restore.partition("@")
    if step and int(step) >= train.steps:
        yield Problem(
            "checkpoint.restore",
            f"step {int(step)} leaves nothing to train: train.steps {train.steps} counts from the very first step",
        )


def _degree_problems(spec: RecipeSpec) -> Iterator[Problem]:
    parallel, resources, world = spec.parallel, spec.resources, spec.world_size()
    words = f"shard {parallel.shard} x tensor {parallel.tensor} x pipeline.stages {parallel.pipeline.stages}"
    inner = parallel.shard * parallel.tensor * parallel.pipeline.stages
    ranks = f"{resources.nodes} nodes x {resources.processes_per_node} processes = {world}"
    if parallel.data == "auto":
        if world % inner:
            yield Problem("parallel", f"{words} = {inner} does not divide the world size: {ranks}")
    elif int(parallel.data) * inner != world:
        accepted = f"auto or {world // inner}" if world % inner == 0 else "none with these degrees"
        yield Problem(
            "parallel.data",
            f"{parallel.data} x {words} = {int(parallel.data) * inner} is not the world size: {ranks}; "
            f"accepted: {accepted}",
        )


def _batch_problems(spec: RecipeSpec) -> Iterator[Problem]:
    train, pipeline = spec.train, spec.parallel.pipeline
    copies = spec.mesh().num_batch_parts
    pieces = train.accumulate * copies
    if train.batch_size % pieces:
        below = train.batch_size // pieces * pieces
        yield Problem(
            "train.batch_size",
            f"{train.batch_size} does not divide by accumulate {train.accumulate} x data degree {copies} = {pieces}; "
            f"the nearest that do: {f'{below} or ' if below else ''}{below + pieces}",
        )
    elif pipeline.stages > 1:
        try:
            choose_microbatches(pipeline.schedule, pipeline.stages, pipeline.microbatches, train.batch_size // pieces)
        except ValueError as error:
            yield Problem("parallel.pipeline.microbatches", str(error))


def _backward_problems(spec: RecipeSpec) -> Iterator[Problem]:
    train, pipeline = spec.train, spec.parallel.pipeline
    found = whole_backward_problem(pipeline.schedule, train.compile, train.activation_checkpointing)
    if pipeline.stages > 1 and found is not None:
        yield Problem(*found)
