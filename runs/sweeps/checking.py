"""Refusals of a sweep, and its cost: nothing is written."""

import math
from collections.abc import Iterator
from statistics import fmean, median
from typing import NamedTuple

from runs.actions.bundles import pin_code
from runs.actions.checking import Launchable, check_launch
from runs.models import Cluster, Project, User
from runs.placing.planning import frozen_estimate
from runs.rights.access import Permission, get_job, or_not_found, require, visible_projects
from runs.sweeps.search import plain
from runs.sweeps.search.plain import SamplerQuestion
from trainyard.contract.answers import sweeps as answers
from trainyard.contract.base import JsonObject
from trainyard.spec import Problem, ScriptSpec, SpecError, merge
from trainyard.spec.sweeps import SweepSpec, grid_size, parse_sweep, space_problems, trial_document
from trainyard.spec.sweeps.models import MAX_TRIALS
from trainyard.spec.sweeps.population import population_base, population_base_problems

NUM_TRIED = 24  # trials that are parsed beforehand
MOST_NAMED = 5
DEFAULT_PROJECT = "default"


class CheckedSweep(NamedTuple):
    """``base`` has its code pinned; ``sample`` are trials that were tried, with what is wrong with each."""

    spec: SweepSpec
    base: JsonObject
    project: Project
    cluster: Cluster
    sample: "list[TriedTrial]"


class TriedTrial(NamedTuple):
    """A point of the space; ``launch`` is None where it cannot run, for the reason in ``problem``."""

    parameters: JsonObject
    launch: Launchable | None
    problem: str = ""


class Preview(answers.SweepPreview):
    """What REST says of a sweep beforehand, and what pages say besides."""

    at_once: int  # trials side by side: as many as the budget allows and the cluster has slots for, at least one


def check_sweep(actor: User, document: object, *, pins: bool = True) -> CheckedSweep:
    """Return the sweep that would start. Raises SpecError for what is wrong with the document, NotFound for its job and
    project, and Forbidden for who may not launch there. ``pins``: fetch code of a repository now, so that all trials
    have the same."""
    spec = parse_sweep(document)
    base, spec = _base_of(actor, spec)
    if problems := [*space_problems(spec, base), *population_base_problems(spec, base)]:
        raise SpecError(problems)
    base = population_base(spec, base)
    sample = list(_tried(actor, spec, base))
    launch = next((one.launch for one in sample if one.launch is not None), None)
    if launch is None:
        shown = ", ".join(f"{path}={value}" for path, value in sample[0].parameters.items())
        words = f"none of {len(sample)} trials that were tried can run; with {shown}: {sample[0].problem}"
        raise SpecError([Problem("space", words)])
    pinned = pin_code(actor=actor, project=launch.project, spec=launch.spec) if pins else None
    if pinned is not None and isinstance(launch.spec, ScriptSpec):  # all trials run the code that is there now
        base = merge(base, {"task.code.revision": pinned.commit.number})
    return CheckedSweep(spec, base, launch.project, launch.cluster, sample)


def preview(actor: User, document: object, *, pace: float = 1.0) -> Preview:
    """Return how many trials there would be, what they cost and which cannot run: the sum over trials by the mean of
    those that were tried. ``pace`` is how long a step of a like run took, in the planner's estimates of it. Raises what
    check_sweep does."""
    checked = check_sweep(actor, document, pins=False)
    trials = num_trials(checked.spec)
    launches = [one.launch for one in checked.sample if one.launch is not None]
    timed = [(found * pace, _slots(one)) for one in launches if (found := _seconds(one)) is not None]
    times = [time_s for time_s, _ in timed]
    refused = [
        answers.RefusedTrial(parameters=one.parameters, problem=one.problem)
        for one in checked.sample
        if one.launch is None
    ]
    first = launches[0]
    runs = trials * checked.spec.seeds
    at_once = max(1, min(checked.spec.budget.parallel, trials, _num_that_fit(first)))
    rounds = math.ceil(trials / at_once)
    return Preview(
        trials=trials,
        runs=runs,
        num_tried=len(checked.sample),
        num_refused=len(refused),
        refused=refused[:MOST_NAMED],
        trial_s=median(times) if times else None,
        total_s=fmean(times) * rounds * checked.spec.seeds if times else None,
        slot_hours=fmean(time_s * slots for time_s, slots in timed) * runs / 3600.0 if timed else None,
        slots_per_trial=first.spec.world_size(),
        at_once=at_once,
    )


def _num_that_fit(launch: Launchable) -> int:
    """Return how many such runs the cluster has slots for at once, where nothing else trains."""
    wanted, slots = launch.spec.resources.least_nodes, launch.spec.resources.processes_per_node
    room = [node.slots // slots for node in launch.nodes if not node.is_draining]
    tried = range(sum(room) // wanted, 0, -1)
    return next((num for num in tried if sum(min(one, num) for one in room) >= num * wanted), 0)


def num_trials(spec: SweepSpec) -> int:
    """Return the number of trials: those of the budget, of a grid no more than it has points."""
    if spec.sampler.name != "grid":
        return spec.budget.trials
    return min(spec.budget.trials, grid_size(spec.space, MAX_TRIALS))


def _base_of(actor: User, spec: SweepSpec) -> tuple[JsonObject, SweepSpec]:
    """Return the base spec, and the sweep with its project filled in."""
    base = get_job(actor, spec.job, Permission.SWEEPS_LAUNCH).spec if spec.job else spec.base
    own = base.get("project", DEFAULT_PROJECT)
    name = spec.project if spec.project is not None else own if isinstance(own, str) else DEFAULT_PROJECT
    project = visible_projects(actor).filter(name=name).first() or visible_projects(actor).filter(pk=name).first()
    project = or_not_found(project, f"There is no project {name!r} that you can see.")
    require(actor, project, Permission.SWEEPS_LAUNCH)
    return merge(base, {"project": project.name}), spec.model_copy(update={"project": project.name})


def _tried(actor: User, spec: SweepSpec, base: JsonObject) -> Iterator[TriedTrial]:
    """Yield points spread over the space, each parsed as the run that it would be."""
    seen: list[JsonObject] = []
    is_grid = spec.sampler.name == "grid"
    for place in range(min(NUM_TRIED, spec.budget.trials) if is_grid else NUM_TRIED):
        question = SamplerQuestion(spec, place, place, [], {})
        found = plain.grid(question) if is_grid else plain.quasi_random(question)
        if found is None or found.parameters in seen:
            continue
        seen.append(found.parameters)
        document = trial_document(spec, base, place, found.parameters)
        try:
            yield TriedTrial(found.parameters, check_launch(actor=actor, document=document))
        except SpecError as error:
            yield TriedTrial(found.parameters, None, str(error.errors[0]))


def _seconds(launch: Launchable) -> float | None:
    """Return what the planner says of the whole run; None where it cannot say."""
    estimate = frozen_estimate(launch.spec, launch.cluster, launch.nodes)
    steps = launch.spec.resolved().get("train", {}).get("steps")
    if estimate is None or steps is None or "step_time" not in estimate:
        return None
    return float(estimate["step_time"]["total"]) * int(steps)


def _slots(launch: Launchable) -> float:
    return launch.spec.world_size() * launch.spec.resources.slots_per_process
