"""Estimate of a spec on given nodes: the parts put together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from trainyard.contract.base import JsonObject
from trainyard.formats.figures import between, size
from trainyard.planner.architectures.samples import MLP, ResNet
from trainyard.planner.architectures.transformer import GPT, ViT
from trainyard.planner.machines import DataFacts, NodeFacts, Places, Rates, place_ranks
from trainyard.planner.results import Estimate, Fit, Memory, StepTime
from trainyard.planner.roofline import exchange_time, messages, optimizer_time, pass_time
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used
from trainyard.spec.strategies.costs import Layout, Model, Pass, Section, Stage, lay_out, stages_of
from trainyard.spec.strategies.messages import WHOLE

BYTES = 256  # tokens of a text in bytes
BUILT_IN = {
    "digits": DataFacts(num_rows=1_797, num_classes=10, channels=1, image_size=8),
    "breast-cancer": DataFacts(num_rows=569, num_features=30, num_classes=2),
    "iris": DataFacts(num_rows=150, num_features=4, num_classes=3),
    "wine": DataFacts(num_rows=178, num_features=13, num_classes=3),
    "diabetes": DataFacts(num_rows=442, num_features=10, num_classes=0),
}
# Assumptions where the data was not inspected yet, and their names.
ASSUMED = {
    "num_features": (32, "columns of the table"),
    "num_classes": (10, "classes"),
    "channels": (3, "channels of an image"),
    "image_size": (32, "pixels of an image's side"),
}


@lru_cache(maxsize=256)
def sections_of(model: Model, at: Pass) -> list[Section]:
    """Return the model's sections, made once: plans that are compared need the same ones again and again."""
    return model.sections(at)


class ModelOfTask(NamedTuple):
    """``unit`` is what throughput counts, of which a row has ``units_per_row``; ``assumptions`` are in words."""

    model: Model
    unit: str
    units_per_row: int
    assumptions: tuple[str, ...]


def find_model(task: JsonObject, data: DataFacts | None = None) -> ModelOfTask:
    """Return the model of a resolved spec's ``task``. Raises ValueError for a recipe that trains none."""
    recipe, sizes = task["recipe"], task["model"]
    if recipe == "language-model":
        kv_heads = sizes["heads"] if sizes["kv_heads"] == "auto" else int(sizes["kv_heads"])
        vocabulary = BYTES if task["data"]["tokens"] == "bytes" else task["data"]["vocabulary"]
        gpt = GPT(sizes["layers"], sizes["width"], sizes["heads"], kv_heads, sizes["context"], vocabulary)
        return ModelOfTask(gpt, "tokens", sizes["context"], ())
    if recipe not in ("image-classifier", "tabular"):
        raise ValueError(f"task.recipe is {recipe!r}, which trains no model")
    names = ("num_classes", "num_features") if recipe == "tabular" else ("num_classes", "channels", "image_size")
    known, assumptions = _numbers(names, task["data"], data)
    outputs = known["num_classes"] or 1
    model: Model
    if recipe == "tabular":
        model = MLP(sizes["layers"], sizes["width"], known["num_features"], outputs)
    elif sizes["architecture"] == "resnet":
        model = ResNet(sizes["layers"], sizes["width"], known["channels"], known["image_size"], outputs)
    else:
        shape = known["channels"], known["image_size"], outputs
        model = ViT(sizes["layers"], sizes["width"], sizes["heads"], sizes["patch"], *shape)
    return ModelOfTask(model, "samples", 1, assumptions)


def model_flops(task: JsonObject, data: DataFacts | None = None) -> float:
    """Return the FLOPs of one row, forward and backward, as the mathematics has them: nothing computed twice.

    Products of matrices, convolutions and attention count, two for each multiplication and addition (Chowdhery et al.
    2022, appendix B: the model FLOPs of MFU). Raises ValueError for a recipe that trains no model.
    """
    return sum(section.flops() for section in sections_of(find_model(task, data).model, Pass(1)))


def _numbers(
    names: tuple[str, ...], data: JsonObject, facts: DataFacts | None
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return the numbers as they are written in the spec, measured or built in, else assumed; and what is assumed."""
    found: dict[str, int] = {}
    assumed = []
    for name in names:
        written = data.get(name) if data["source"] == "images" else None
        known = [getattr(one, name) for one in (facts, BUILT_IN.get(data["source"])) if one is not None]
        value = next((one for one in (written, *known) if one is not None), None)
        if value is None:
            value, words = ASSUMED[name]
            assumed.append(f"{value} {words}")
        found[name] = int(value)
    return found, (f"The data was not inspected yet: {', '.join(assumed)} are assumed.",) if assumed else ()


MOMENTS = {"adamw": 2, "sgd": 1, "muon": 2}
MARGIN = 0.7  # of what a pass makes and frees again: a CPU's heap keeps so much of it that nothing else fits into
MOSTLY = 0.5  # of a step
LONG_BUBBLE = 0.3
FULL_GPU_FLOPS = 1e9  # of a pass and layer, below which a GPU waits for its orders


def estimate(
    spec: RecipeSpec,
    nodes: Sequence[NodeFacts],
    rates: Rates,
    data: DataFacts | None = None,
    num_nodes: int | None = None,
) -> Estimate:
    """Return what ``spec`` costs on ``nodes``, in the order of ranks; on ``num_nodes`` of them where that is given.

    Raises ValueError, naming the numbers, where the spec cannot be laid out over so many nodes, or there is none.
    """
    places = place_ranks(tuple(nodes), num_nodes or spec.resources.least_nodes, spec.resources.processes_per_node)
    layout = lay_out(spec, num_nodes)
    found = find_model(spec.task.model_dump(mode="json"), data)
    narrowed, sections = _of_a_rank(spec, found.model, layout)
    stages = stages_of(layout, sections, narrowed.flow(layout.at), narrowed.batch_bytes(layout.rows))
    times = [_step_time(spec, layout, stage, places, rates) for stage in stages]
    exchanged = [messages(spec, layout, stage) for stage in stages]
    time = max(times, key=lambda one: one.total)  # all wait for the slowest stage
    one_row = sections_of(found.model, Pass(1))
    made = Estimate(
        memory=_memories(spec, layout, stages, rates.base_bytes(places.most_forked), is_gpu=places.is_gpu),
        memory_limits=places.limits,
        step_time=time,
        sent_bytes=max(sum(one.sent_bytes(is_gpu=places.is_gpu) for one in sent) for sent in exchanged),
        bubble=time.bubble / time.total if time.total else 0.0,
        num_parameters=round(sum(section.num_parameters() for section in one_row)),
        flops_per_step=sum(section.flops() for section in one_row) * spec.train.batch_size,
        unit=found.unit,
        units_per_second=spec.train.batch_size * found.units_per_row / time.total if time.total else 0.0,
        warnings=(),
        is_measured=rates.is_measured,
    )
    return replace(made, warnings=tuple(remarks(made, spec, layout, places, found.assumptions)))


def _of_a_rank(spec: RecipeSpec, model: Model, layout: Layout) -> tuple[Model, Sequence[Section]]:
    """Return the model and its sections as the strategies leave them to one rank."""
    strategies, narrowed = used(spec, layout.mesh), model
    for one in strategies:
        narrowed = one.narrowed(narrowed, layout.mesh)
    sections = sections_of(narrowed, layout.at)
    if narrowed == model:
        return model, sections
    found = {section: section for section in sections}  # those that are one object stay one
    for one in strategies:
        found = {key: one.section(section, narrowed, layout) for key, section in found.items()}
    return narrowed, [found[section] for section in sections]


def _memories(
    spec: RecipeSpec, layout: Layout, stages: Sequence[Stage], base: float, *, is_gpu: bool
) -> tuple[Memory, ...]:
    """Return what each rank holds. Ranks of a stage are alike, but for the one that serves parameters."""
    per_stage = layout.mesh.world_size // layout.mesh.stages
    found: list[Memory] = []
    for stage in stages:
        first = len(found)
        others = stage_memory(spec, layout, stage, first + 1, base, is_gpu=is_gpu)
        found += [stage_memory(spec, layout, stage, first, base, is_gpu=is_gpu), *[others] * (per_stage - 1)]
    return tuple(found)


def _step_time(spec: RecipeSpec, layout: Layout, stage: Stage, places: Places, rates: Rates) -> StepTime:
    """Return the step's time by part, as the ranks of ``stage`` have it."""
    # Measurements made while ranks took turns on the cores are that slow already.
    crowding = max(1.0, places.crowding / rates.crowding)
    seconds = pass_time(spec, layout, stage, rates, is_gpu=places.is_gpu)
    forward, backward = (crowding * layout.passes * one for one in seconds)
    exchanged = messages(spec, layout, stage)
    bubble = sum(one.bubble(layout) for one in used(spec, layout.mesh))
    return StepTime(
        compute=forward + backward,
        communication=exchange_time(exchanged, rates, backward / layout.passes, can_hide=places.has_spare_cores),
        # Ranks that want the same cores do not wait idly: while one does, another computes.
        bubble=(forward + backward) * bubble / (1 - bubble) / places.crowding,
        optimizer=crowding * optimizer_time(spec, layout, stage, rates, is_gpu=places.is_gpu),
    )


# Remarks on a plan for a person, before it runs, in sentences.


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
        words = "they take turns, and a step takes as much longer."
        yield f"There are {places.crowding:.3g} ranks for each core of a machine: {words}"
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
        words = "more parallel.pipeline.microbatches make it less."
        yield f"The stages wait for each other in {100 * made.bubble:.0f} % of a step: {words}"
    per_layer = made.flops_per_step / layout.mesh.world_size / layout.passes / max(1, spec.task.model.layers)
    if places.is_gpu and per_layer < FULL_GPU_FLOPS:
        words = "which then waits for its orders: train.batch_size can grow at little cost."
        yield f"{layout.at.rows} {'row' if layout.at.rows == 1 else 'rows'} a pass do not fill a GPU, {words}"


# Memory of a rank at the fullest moment of a step, by part.
#
# Weights, gradients and moments: Rajbhandari et al. 2020, "ZeRO", section 3.1, here with weights of 4 bytes
# throughout. Activations: the sections' own counts (Korthikanti et al. 2022, section 4.1). On top comes one
# calibrated margin for the allocator; docs/decisions/planner.md says how it was measured.


def stage_memory(spec: RecipeSpec, layout: Layout, stage: Stage, rank: int, base: float, *, is_gpu: bool) -> Memory:
    """Return what ``rank``, one of ``stage``, holds beside ``base``."""
    mesh, weights, strategies = layout.mesh, stage.weights(layout), used(spec, layout.mesh)
    own, moments = sum(weights) / mesh.shard, _moments(spec, stage, layout, rank) / mesh.shard
    activations, gradients = _fullest(spec, layout, stage, weights)
    copies = sum(one.copied_bytes(spec, layout, stage, rank) for one in strategies)
    if spec.checkpoint.every_steps and not is_gpu:  # a GPU's lie in the host's
        kept = 3 if spec.checkpoint.replicate_every_steps else 1  # the last one's snapshot, and two in memory
        shared = 0.0 if any(one.has_own_optimizers for one in strategies) else moments
        copies += ((own + shared) / mesh.num_copies + moments - shared) * kept
    return Memory(
        base=base,
        parameters=own + sum(one.gathered_bytes(spec, layout, weights) for one in strategies),
        gradients=gradients,
        optimizer=moments,
        activations=activations + 2 * stage.batch + sum(one.buffer_bytes(layout, stage) for one in strategies),
        copies=copies,
        margin=0.0 if is_gpu else MARGIN * _made_and_freed(spec, layout, stage, weights),
    )


def _fullest(spec: RecipeSpec, layout: Layout, stage: Stage, weights: Sequence[float]) -> tuple[float, float]:
    """Return activations and gradients of the moment when they are most together: a step is walked through backwards,
    section by section."""
    kind, shard = spec.train.activation_checkpointing, layout.mesh.shard
    kept = [_kept(section, kind) for section in stage.sections]
    # Gradients of earlier passes are whole already; DDP's have their place in buckets from the first step on.
    is_ddp = layout.mesh.is_replicated and spec.parallel.synchronization.kind == "every-step"
    are_there = is_ddp or layout.passes > 1
    most, made = (0.0, sum(weights) / shard), 0.0
    below = layout.in_flight(stage.index) * sum(kept)
    for section, own, weight in reversed(list(zip(stage.sections, kept, weights, strict=True))):
        again = section.kept - own if section.entry else 0.0  # what activation checkpointing computes once more
        gradients = (sum(weights) if are_there else made) / shard
        if shard > 1:  # those of the block that is at work are whole, and so is what is sent of them
            gradients += 2 * weight
        elif layout.passes > 1:
            gradients += weight
        most = max(most, (below + section.transient + again, gradients), key=sum)
        below -= own
        made += weight
    return most


def _kept(section: Section, kind: str) -> float:
    """Return what a section keeps; activation checkpointing is that of blocks, which have an entry."""
    if kind == "none" or not section.entry:
        return section.kept
    return section.entry + (section.products if kind == "selective" else 0.0)


def _made_and_freed(spec: RecipeSpec, layout: Layout, stage: Stage, weights: Sequence[float]) -> float:
    """Return the bytes of tensors that come and go in a step: activations, also those that are computed again; what is
    gathered and scattered; gradients. Of several passes two count: the first leaves gradients, so that the second finds
    no place where the first had its own; later ones do."""
    exchanged = sum(
        message.num_bytes
        for strategy in used(spec, layout.mesh)
        for message in strategy.messages(spec, layout, stage)
        if message.operation in ("all-gather", "reduce-scatter")
    )
    kept = sum(count * section.kept for section, count in stage.counted())
    in_a_pass = layout.in_flight(stage.index) * (kept + exchanged / layout.passes)
    return min(2, layout.accumulate) * in_a_pass + sum(weights)


def _moments(spec: RecipeSpec, stage: Stage, layout: Layout, rank: int) -> float:
    """Return the bytes of the optimizer's state, unsharded. Ranks that push gradients to a server have none."""
    if spec.parallel.synchronization.kind == "parameter-server" and rank > 0:
        return 0.0
    total = MOMENTS[spec.train.optimizer] * sum(stage.weights(layout))
    if spec.train.optimizer == "muon":  # of which the matrices of blocks have one moment only
        blocks = [section for section in stage.sections if section.entry]
        total -= WHOLE * sum(one.size for section in blocks for one in section.parameters if len(one.shape) == 2)
    return total
