"""What a spec costs on given nodes: the parts put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainyard.planner.machines.facts import DataFacts, NodeFacts
from trainyard.planner.machines.hosts import Places, place_ranks
from trainyard.planner.machines.rates import Rates
from trainyard.planner.memory import stage_memory
from trainyard.planner.models import find_model, sections_of
from trainyard.planner.remarks import remarks
from trainyard.planner.results import Estimate, Memory, StepTime
from trainyard.planner.roofline import exchange_time, messages, optimizer_time, pass_time
from trainyard.spec.models import RecipeSpec
from trainyard.spec.strategies import used
from trainyard.spec.strategies.costs.layout import Layout, Stage, lay_out, stages_of
from trainyard.spec.strategies.costs.sections import Model, Pass, Section


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
    # What was measured while ranks took turns on the cores is that slow already.
    crowding = max(1.0, places.crowding / rates.crowding)
    forward, backward = (
        crowding * layout.passes * one for one in pass_time(spec, layout, stage, rates, is_gpu=places.is_gpu)
    )
    exchanged = messages(spec, layout, stage)
    bubble = sum(one.bubble(layout) for one in used(spec, layout.mesh))
    return StepTime(
        compute=forward + backward,
        communication=exchange_time(exchanged, rates, backward / layout.passes, can_hide=places.has_spare_cores),
        # Ranks that want the same cores do not wait idly: while one does, another computes.
        bubble=(forward + backward) * bubble / (1 - bubble) / places.crowding,
        optimizer=crowding * optimizer_time(spec, layout, stage, rates),
    )
