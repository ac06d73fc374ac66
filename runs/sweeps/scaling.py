"""Scaling studies: the same job on several numbers of ranks, one after another. A study is a sweep over ``resources``
whose trials are all there from the start, each numbered by its ranks; what the cluster can never hold has failed."""

from collections.abc import Sequence
from statistics import quantiles

import numpy as np
from django.utils import timezone

from runs.actions.checking import Launchable, NeverFits, check_launch, cluster_of, parse_launch
from runs.models import Node, Sweep, Trial, User
from runs.placing.planning import MAX_RANKS, planned_step_s
from runs.presenting.measured import measured_of
from runs.records.metrics.progress import telemetry
from runs.rights.access import Permission, project_by_name, require
from runs.sweeps.actions import start_sweep
from runs.sweeps.objective import PACE
from trainyard.contract.answers import sweeps as answers
from trainyard.contract.answers.sweeps import Prediction, ScalingSize
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import TrialState
from trainyard.formats.figures import percent, seconds
from trainyard.planner.results import TIME_RANGE
from trainyard.spec import Problem, RecipeSpec, ScriptSpec, SpecError, check_room, merge
from trainyard.spec.sweeps import overlay

MOST_OFF = 0.9  # a fitted step is known to that share at the worst
WORTH_NAMING = 0.03  # of a step
LOST = {
    "compute": "computing that ranks do not share", "communication": "messages between ranks",
    "waiting": "waiting for the slowest rank", "data": "waiting for data", "checkpoint": "checkpoints",
    "other": "what no phase counts",
}  # fmt: skip


def compare(sizes: Sequence[ScalingSize], *, is_weak: bool) -> None:
    """Fill in what each size is beside the first measured one, and what the smaller ones promise of it. Losses are the
    shares of a step that ideal scaling would not have, the largest first; one below 0 was won."""
    first = next((one for one in sizes if one["step_s"]), None)
    for place, one in enumerate(sizes):
        one["predicted"] = predicted(sizes[:place], one, is_weak=is_weak)
        if not (first and first["step_s"] and one["step_s"]):
            continue
        growth = one["ranks"] / first["ranks"]
        ideal = 1.0 if is_weak else 1 / growth  # of the first's step
        efficiency = ideal * first["step_s"] / one["step_s"]
        one["efficiency"], one["speed_up"] = efficiency, growth * efficiency
        if one is not first and one["parts"].keys() == first["parts"].keys() != set():
            parts = {name: (took - ideal * first["parts"][name]) / one["step_s"] for name, took in one["parts"].items()}
            parts["other"] = 1 - efficiency - sum(parts.values())
            one["losses"] = dict(sorted(parts.items(), key=lambda part: -part[1]))


def predicted(smaller: Sequence[ScalingSize], size: ScalingSize, *, is_weak: bool) -> Prediction | None:
    """Return the speed-up that the ``smaller`` sizes promise; None where they do not say.

    The planner's step counts as it changed from the largest measured one. Else it is a + b / ranks by least squares:
    what is not shared and what is (Amdahl 1967) or, of weak scaling, a ring's messages (Patarasuk & Yuan 2009). Then it
    is as sure as the steps are alike.
    """
    known = [one for one in smaller if one["step_s"]]
    steps = np.array([one["step_s"] for one in known], dtype=float)
    if known and known[-1]["planned_s"] and size["planned_s"]:
        step_s, off, by = steps[-1] * size["planned_s"] / known[-1]["planned_s"], TIME_RANGE, "planner"
    elif len(known) > 1:
        places = np.array([(1.0, 1 / one["ranks"]) for one in known])
        inverse, by = np.linalg.pinv(places), "ring" if is_weak else "amdahl"
        weights = np.array((1.0, 1 / size["ranks"])) @ inverse
        step_s, rest = weights @ steps, places @ inverse @ steps - steps
        spread = np.abs(weights) @ (steps * [one["spread"] for one in known]) + np.sqrt(np.mean(rest**2))
        off = min(float(spread / step_s), MOST_OFF)
    else:
        return None
    times = float(steps[0] / step_s) * (size["ranks"] / known[0]["ranks"] if is_weak else 1.0)
    if not 0 < times < 1e6:  # the fit leads to no time at all, or below
        return None
    return {"speed_up": times, "low": times / (1 + off), "high": times / (1 - off), "by": by}


def verdict(sizes: Sequence[ScalingSize]) -> str:
    """Return what the study says, in one sentence."""
    measured = [one for one in sizes if one["speed_up"]]
    if not measured:
        return "No size is measured: each row says how far it is, or why not."
    first, last = measured[0], measured[-1]
    said = f"{last['ranks']} ranks train {last['speed_up']:.1f} times as fast as {first['ranks']}"
    if first is last:
        said = f"A step takes {seconds(last['step_s'])} on {last['ranks']} rank{'s' * (last['ranks'] > 1)}"
    for one in sizes:
        if one["ranks"] > last["ranks"] and (found := one["predicted"]):
            times, ideal = (f"{value:.1f}" for value in (found["speed_up"], one["ranks"] / first["ranks"]))
            said += f"; {one['ranks']} would bring {times}" + f", not {ideal.removesuffix('.0')}" * (times != ideal)
            break
    name, share = next(iter(last["losses"].items()), ("", 0.0))
    return said + (f": {percent(share)} of each step goes into {LOST[name]}." if share >= WORTH_NAMING else ".")


MOST_SIZES = 16
STUDY = "scaling"  # in study_state: whether it is weak, and the size behind the largest one
PLANNED = "planned_s"  # in a trial's attributes: the planner's step, from before anything ran
RESOURCES, BATCH_SIZE = "resources", "train.batch_size"


def start_scaling(
    *, actor: User, document: JsonObject, ranks: Sequence[int], steps: int | None = None, is_weak: bool = False
) -> Sweep:
    """Start a study of the spec; control launches one size after another. Raises what start_sweep raises."""
    if not 2 <= len(set(ranks)) == len(ranks) <= MOST_SIZES or not all(1 <= one <= MAX_RANKS for one in ranks):
        words = f"must be 2 to {MOST_SIZES} different numbers from 1 to {MAX_RANKS:,}, such as 1, 2, 4"
        raise SpecError([Problem("ranks", f"{words}, not {', '.join(map(str, ranks[:20])) or 'none'}")])
    job = _job(actor, document if steps is None else merge(document, {"train.steps": steps}))
    trials = [_trial(actor, job, one, _parameters(job, one, is_weak=is_weak)) for one in sorted(ranks)]
    if sum(not one.reason for one in trials) < 2:
        raise SpecError([Problem("ranks", f"fewer than two sizes can run. {max(one.reason for one in trials)}")])
    beyond = _parameters(job, 2 * max(ranks), is_weak=is_weak)
    base = dict(job.spec.resolved())
    planned_s = planned_step_s(overlay(base, beyond), job.cluster, job.nodes)

    def write(sweep: Sweep) -> None:
        for one in trials:
            one.sweep = sweep
        Trial.objects.bulk_create(trials)
        sweep.study_state = {STUDY: {"weak": is_weak, "ranks": 2 * max(ranks), PLANNED: planned_s, **beyond}}
        sweep.save(update_fields=["study_state"])

    study = {
        "name": f"{job.spec.name[:100]}-scale",
        "base": base,
        "space": {path: {"values": [one.parameters[path] for one in trials]} for path in beyond},
        "objective": {"metric": PACE, "direction": "maximize"},
        "budget": {"trials": len(trials), "parallel": 1, "ahead": 0, "failures": len(trials) + 1},
        "sampler": "grid",
    }
    return start_sweep(actor=actor, document=study, earlier=write)


def _job(actor: User, document: JsonObject) -> Launchable:
    """Return the job, whether or not the cluster holds it as it is. It is the copies of a model that become more."""
    spec = parse_launch(actor, document)
    project = project_by_name(actor, spec.project)
    require(actor, project, Permission.SWEEPS_LAUNCH)
    cluster = cluster_of(actor, project, spec)
    if not isinstance(spec, ScriptSpec):
        spec = parse_launch(actor, merge(dict(spec.resolved()), {"parallel.data": "auto"}))
    return Launchable(spec, project, cluster, list(Node.objects.registered().filter(cluster=cluster)))


def _trial(actor: User, job: Launchable, ranks: int, parameters: JsonObject) -> Trial:
    """Return the unsaved trial of a size. Raises SpecError for one that more nodes would not help."""
    found = Trial(parameters=parameters, number=ranks)
    document = overlay(dict(job.spec.resolved()), parameters)
    try:
        check_launch(actor=actor, document=document)
    except NeverFits as error:
        found.state, found.ended_at = TrialState.FAILED, timezone.now()
        found.reason = f"Left out: cluster {job.cluster.name} can never hold {ranks} ranks. {error.errors[0]}."
    except SpecError as error:
        raise SpecError([Problem("ranks", f"{ranks} cannot run: {error}")]) from None
    found.system_attributes = {PLANNED: planned_step_s(document, job.cluster, job.nodes)}
    return found


def _parameters(job: Launchable, ranks: int, *, is_weak: bool) -> JsonObject:
    """Return what a size has another way than the base: the ranks on as few nodes as hold them, but for the job's own
    number of ranks, which stand as it says."""
    usual = job.spec.resources
    own, each = usual.least_nodes, usual.processes_per_node
    most = min(ranks, max((node.slots for node in job.nodes), default=each))
    shapes = [(own, each)] * (ranks == own * each)
    shapes += [(ranks // one, one) for one in range(most, 0, -1) if ranks % one == 0]
    kept = [{**usual.model_dump(), "nodes": nodes, "processes_per_node": one} for nodes, one in shapes]
    found: JsonObject = {RESOURCES: next((one for one in kept if not check_room(one, job.nodes)), kept[0])}
    if is_weak and isinstance(job.spec, RecipeSpec):
        found[BATCH_SIZE] = job.spec.train.batch_size * ranks // (own * each)  # no rest, where the degrees divide it
    return found


def scaling_of(sweep: Sweep) -> answers.Scaling | None:
    """Return the figures of a study; None for another sweep. A trial that somebody added is none of its sizes."""
    if (study := sweep.study_state.get(STUDY)) is None:
        return None
    trials = [one for one in sweep.trials.select_related("run") if PLANNED in one.system_attributes]
    trials.append(Trial(number=study["ranks"], parameters=study, state="", system_attributes=study))
    sizes = list(map(_size, trials))
    compare(sizes, is_weak=study["weak"])
    return {"weak": study["weak"], "verdict": verdict(sizes), "sizes": sizes}


def _size(trial: Trial) -> answers.ScalingSize:
    """Return the size as it was measured, without what follows from the others."""
    found: answers.ScalingSize = {
        "ranks": trial.number, "nodes": trial.parameters[RESOURCES]["nodes"], "run": trial.run_id, "state": trial.state,
        "reason": trial.reason, "planned_s": trial.system_attributes[PLANNED], "step_s": None,
        "steps_per_second": None, "spread": 0.0, "parts": {}, "speed_up": None, "efficiency": None, "losses": {},
        "predicted": None,
    }  # fmt: skip
    if trial.state == TrialState.COMPLETE and trial.value and trial.run is not None:
        measured, intervals = measured_of(trial.run), telemetry([trial.run.pk])[trial.run.pk].intervals_s
        low, middle, high = quantiles(intervals, n=4) if len(intervals) > 1 else (1.0, 1.0, 1.0)
        parts = {name: value or 0.0 for name, value in measured["step_time"].items()} if measured else {}
        if parts:
            parts["compute"] += parts.pop("optimizer")
            parts["communication"] -= parts["waiting"]
            del parts["total"]
        step_s = 1 / trial.value + parts.get("checkpoint", 0.0)
        found |= {"step_s": step_s, "steps_per_second": 1 / step_s, "parts": parts, "spread": (high - low) / 2 / middle}
    return found
