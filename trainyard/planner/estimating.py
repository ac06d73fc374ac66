"""What a spec costs on given nodes: the parts put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainyard.planner.architectures.tape import Pass, Section
from trainyard.planner.layout import Layout, lay_out
from trainyard.planner.machines.facts import DataFacts, NodeFacts
from trainyard.planner.machines.hosts import Places, place_ranks
from trainyard.planner.machines.rates import Rates
from trainyard.planner.memory import Stage, stage_memory, stages_of
from trainyard.planner.models import Model, find_model, sections_of
from trainyard.planner.remarks import remarks
from trainyard.planner.results import Estimate, Memory, StepTime
from trainyard.planner.times import Computing, optimizer_time, pass_time, refill_time
from trainyard.planner.traffic import messages, seconds_of
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used


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
    places = place_ranks(tuple(nodes), num_nodes or spec.resources.nodes, spec.resources.processes_per_node)
    layout = lay_out(spec, num_nodes)
    task = spec.task.model_dump(mode="json")
    found = find_model(task, data)
    model = found.model
    one_row = sections_of(model, Pass(1))
    narrowed, sections = _of_a_rank(spec, model, layout)
    stages = stages_of(layout, sections, narrowed.flow(layout.at), narrowed.batch_bytes(layout.rows))
    memory = _memories(spec, layout, stages, places, rates)
    time, sent = _step_time(spec, layout, stages, memory, places, rates)
    units = spec.train.batch_size * found.units_per_row / time.total if time.total else 0.0
    made = Estimate(
        memory=memory,
        memory_limits=places.limits,
        step_time=time,
        sent_bytes=sent,
        bubble=time.bubble / time.total if time.total else 0.0,
        num_parameters=sum(section.num_alike + section.num_cut for section in one_row),
        flops_per_step=sum(section.flops() for section in one_row) * spec.train.batch_size,
        unit=found.unit,
        units_per_second=units,
        warnings=(),
        is_measured=rates.is_measured,
    )
    return replace(made, warnings=tuple(remarks(made, spec, layout, places, found.assumptions)))


def _of_a_rank(spec: RecipeSpec, model: Model, layout: Layout) -> tuple[Model, Sequence[Section]]:
    """Return the model and its sections as the strategies leave them to one rank."""
    ways, narrowed = used(spec, layout.mesh), model
    for way in ways:
        narrowed = way.narrowed(narrowed, layout.mesh)
    sections = sections_of(narrowed, layout.at)
    if narrowed == model:
        return model, sections
    found = {id(section): section for section in sections}  # those that are one object stay one
    for way in ways:
        found = {key: way.section(section, narrowed, layout) for key, section in found.items()}
    return narrowed, [found[id(section)] for section in sections]


def _memories(
    spec: RecipeSpec, layout: Layout, stages: Sequence[Stage], places: Places, rates: Rates
) -> tuple[Memory, ...]:
    """Return what each rank holds. Ranks of a stage are alike, but for the one that serves parameters."""
    base = rates.base_bytes(places.most_forked)
    found: dict[tuple[int, bool], Memory] = {}
    ranks = []
    per_stage = layout.mesh.world_size // layout.mesh.stages
    for rank in range(layout.mesh.world_size):
        key = rank // per_stage, rank == 0
        if key not in found:
            found[key] = stage_memory(spec, layout, stages[key[0]], rank, rates, base, is_gpu=places.is_gpu)
        ranks.append(found[key])
    return tuple(ranks)


def _step_time(
    spec: RecipeSpec,
    layout: Layout,
    stages: Sequence[Stage],
    memory: Sequence[Memory],
    places: Places,
    rates: Rates,
) -> tuple[StepTime, float]:
    """Return the step's time by part, as the slowest stage has it, and the bytes that the busiest rank sends."""
    # What was measured while ranks took turns on the cores is that slow already.
    crowding, can_hide = max(1.0, places.crowding / rates.crowding), places.has_spare_cores
    if places.most_together == 1:
        crowding *= rates.alone
    slowest: tuple[float, StepTime] | None = None
    sent = 0.0
    for stage, held in zip(stages, memory[:: len(memory) // len(stages)], strict=True):
        computing = pass_time(spec, layout, stage, rates, is_gpu=places.is_gpu)
        exchanged = messages(spec, layout, stage)
        sent = max(sent, sum(message.sent_bytes(is_gpu=places.is_gpu) for message in exchanged))
        time = _stage_time(spec, layout, stage, computing, rates, crowding, places)
        waited = seconds_of(rates, exchanged, crowding * computing.backward, can_hide=can_hide, is_gpu=places.is_gpu)
        refill = crowding * refill_time(layout, held, rates, is_gpu=places.is_gpu)
        time = StepTime(time.compute + refill, waited, time.bubble, time.optimizer)
        if slowest is None or time.total > slowest[0]:
            slowest = time.total, time
    assert slowest is not None
    return slowest[1], sent


def _stage_time(
    spec: RecipeSpec, layout: Layout, stage: Stage, computing: Computing, rates: Rates, crowding: float, places: Places
) -> StepTime:
    compute = crowding * layout.passes * (computing.forward + computing.backward)
    bubble = sum(way.bubble(layout) for way in used(spec, layout.mesh))
    # Ranks that want the same cores do not wait idly: while one does, another computes.
    waiting = compute * bubble / (1 - bubble) / places.crowding if bubble else 0.0
    return StepTime(
        compute=compute,
        communication=0.0,
        bubble=waiting,
        optimizer=crowding * optimizer_time(spec, layout, stage, rates),
    )
