"""Requests of a person about a sweep: one keyword-only function for each verb, for REST, pages and the terminal."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils import timezone

from runs.actions import restart_run
from runs.actions.checking import check_launch
from runs.actions.runs import submit_run
from runs.models import Role, Run, Sweep, Trial, User
from runs.rights.access import Permission, require
from runs.sweeps.checking import check_sweep
from runs.sweeps.ending import update_best
from runs.sweeps.launching import documents_of, next_number
from runs.sweeps.objective import NoValue, value_of
from runs.sweeps.stepping import EXHAUSTED
from runs.values.refused import Refused
from runs.values.status import Status
from trainyard.contract.base import JsonObject, SpecDocument
from trainyard.contract.statuses import SweepStatus, TrialState
from trainyard.spec import Problem, SpecError, merge, parse_spec
from trainyard.spec.document import value_at_path
from trainyard.spec.sweeps import Dimension, SweepSpec, active, ordered, overlay
from trainyard.spec.sweeps.models import MAX_SEEDS
from trainyard.spec.sweeps.parse import parse_sweep, space_problems
from trainyard.spec.sweeps.space import is_within

MOST_RUNS = 500  # that are looked at, the newest
MOST_TRIALS = 100
# In these a run may differ from the base: they change no objective, or are the reason for another try.
FREE = ("name", "tags", "project", "cluster", "priority", "restarts", "limits", "hangs", "preflight", "log_rules",
        "watch", "stragglers", "checkpoint")  # fmt: skip
WARM = "warm_start"


def start_sweep(*, actor: User, document: Any, earlier: Callable[[Sweep], None] | None = None) -> Sweep:
    """Start the sweep; control launches its trials. ``earlier`` writes trials that have ended elsewhere. Raises
    SpecError, NotFound and Forbidden."""
    checked, now = check_sweep(actor, document), timezone.now()
    with transaction.atomic():
        sweep = Sweep.objects.create(
            project=checked.project, cluster=checked.cluster, name=checked.spec.name, spec=checked.spec.as_document(),
            base_spec=checked.base, created_by=actor, created_at=now, active_since=now, reason_code="running",
            reason_sentence=f"Started by {actor}.",
        )  # fmt: skip
        if earlier is not None:
            earlier(sweep)
        elif checked.spec.warm_start:
            for number, trial in enumerate(warm_trials(sweep)):
                trial.number = number
                trial.save()
        update_best(sweep)
        sweep.changed()
    return sweep


def stop_sweep(*, actor: User, sweep: Sweep) -> Sweep:
    """End the sweep: its live trials save and end, and no further one is launched."""
    require(actor, sweep.project, Permission.SWEEPS_STOP)
    _refuse_final(sweep)
    if sweep.status != SweepStatus.STOPPING:
        _move(sweep, SweepStatus.STOPPING, "stopped", f"Stopped by {actor}.")
    return sweep


def pause_sweep(*, actor: User, sweep: Sweep) -> Sweep:
    """Launch no further trial until it is resumed; those that run go on to their end."""
    require(actor, sweep.project, Permission.SWEEPS_STOP)
    _refuse_final(sweep)
    if sweep.status == SweepStatus.STOPPING:
        raise Refused("stopping", f"Sweep {sweep.name} is being stopped.")
    if sweep.status == SweepStatus.RUNNING:
        _move(sweep, SweepStatus.PAUSED, "paused", f"Paused by {actor}. Trials that run go on to their end.")
    return sweep


def resume_sweep(*, actor: User, sweep: Sweep) -> Sweep:
    require(actor, sweep.project, Permission.SWEEPS_STOP)
    if sweep.status != SweepStatus.PAUSED:
        raise Refused("not-paused", f"Sweep {sweep.name} is {sweep.status}. Only a paused sweep can be resumed.")
    _move(sweep, SweepStatus.RUNNING, "running", f"Resumed by {actor}.")
    return sweep


def change_sweep(
    *, actor: User, sweep: Sweep, space: JsonObject | None = None, budget: JsonObject | None = None
) -> Sweep:
    """Replace dimensions of the space (path -> dimension; others stay) and fields of the budget, in mid-sweep. A sweep
    that has ended goes on where its budget then has trials left. Raises SpecError."""
    require(actor, sweep.project, Permission.SWEEPS_LAUNCH)
    if sweep.status == SweepStatus.STOPPING:
        raise Refused("stopping", f"Sweep {sweep.name} is being stopped.")
    document = sweep.parsed.as_document()
    changes = {"space": space or {}, "budget": budget or {}}
    spec = parse_sweep({**document, **{name: {**document[name], **given} for name, given in changes.items()}})
    if problems := space_problems(spec, sweep.base_spec):
        raise SpecError(problems)
    _refuse_narrower(sweep.parsed.space, spec.space)
    with transaction.atomic():
        sweep.spec = spec.as_document()
        sweep.study_state = {name: value for name, value in sweep.study_state.items() if name != EXHAUSTED}
        sweep.save(update_fields=["spec", "study_state"])
        del sweep.parsed  # it is parsed anew at the next reading
        if sweep.is_final and sweep.trials.filter(by_hand=False).count() < spec.budget.trials:
            _move(sweep, SweepStatus.RUNNING, "running", f"{actor} gave it more to search.")
        else:
            sweep.changed()
    return sweep


def _refuse_narrower(before: dict[str, Dimension], after: dict[str, Dimension]) -> None:
    """Refuse a space that leaves out what was in it: the trials that there are would not be of it."""
    found = []
    for path, old in before.items():
        new = after[path]
        if old.is_choice != new.is_choice or (old.whole, old.log) != (new.whole, new.log):
            found.append(Problem(f"space.{path}", "must stay of its kind; add a field, or begin a new sweep"))
        elif old.values is not None and any(one not in (new.values or []) for one in old.values):
            found.append(Problem(f"space.{path}.values", "must keep the values that it had"))
        elif not old.is_choice and (new.bounds[0] > old.bounds[0] or new.bounds[1] < old.bounds[1]):
            low, high = old.bounds
            found.append(Problem(f"space.{path}", f"must include {low:g} to {high:g}, where trials have been"))
    words = "is new: earlier trials had no value of it"
    found += [Problem(f"space.{path}", words) for path in after if path not in before]
    if found:
        raise SpecError(found)


def delete_sweep(*, actor: User, sweep: Sweep) -> None:
    """Forget an ended sweep and its trials; their runs stay. One's own as a member, others' as a maintainer."""
    require(actor, sweep.project, Permission.SWEEPS_DELETE)
    if sweep.created_by_id != actor.pk:
        require(actor, sweep.project, Role.MAINTAINER)
    if not sweep.is_final or sweep.live_trials().exists():
        raise Refused("still-live", f"Sweep {sweep.name} is {sweep.status}. Stop it first.")
    sweep.delete()


def add_trial(*, actor: User, sweep: Sweep, parameters: JsonObject) -> Trial:
    """Have the sweep try these parameters as soon as it has room, also outside of its space. Raises SpecError."""
    require(actor, sweep.project, Permission.SWEEPS_LAUNCH)
    if sweep.is_final or sweep.status == SweepStatus.STOPPING:
        raise Refused("ended", f"Sweep {sweep.name} is {sweep.status}. It takes no further trial.")
    if not parameters:
        raise SpecError([Problem("parameters", "is empty: name a value of a field that varies")])
    if unknown := [path for path in parameters if path not in sweep.parsed.space]:
        accepted = ", ".join(sweep.parsed.space)
        raise SpecError([Problem(f"parameters.{path}", f"does not vary; accepted: {accepted}") for path in unknown])
    for document in documents_of(sweep, 0, parameters):
        check_launch(actor=actor, document=document)
    with transaction.atomic():
        Sweep.objects.select_for_update().get(pk=sweep.pk)
        trial = Trial.objects.create(sweep=sweep, number=next_number(sweep), parameters=parameters, by_hand=True)
        sweep.changed()
    return trial


def promote_trial(*, actor: User, sweep: Sweep, number: int) -> Trial:
    """Have a trial that was pruned go on from its checkpoint, to its end."""
    require(actor, sweep.project, Permission.SWEEPS_LAUNCH)
    trial = sweep.trials.filter(number=number).select_related("run__project", "run__cluster").first()
    if trial is None or trial.state != TrialState.PRUNED or trial.run is None:
        state = "not there" if trial is None else trial.state
        raise Refused("not-pruned", f"Trial {number} is {state}. Only one that was pruned can be promoted.")
    runs = Run.objects.filter(pk__in=trial.run_ids()).select_related("project", "cluster")
    with transaction.atomic():
        for run in runs:
            restart_run(actor=actor, run=run)
        trial.state, trial.is_promoted, trial.ended_at, trial.pruned_at_step = TrialState.RUNNING, True, None, None
        trial.value, trial.reason = None, f"Promoted by {actor}."
        trial.save()
        sweep.changed()
    return trial


def launch_again(*, actor: User, sweep: Sweep, number: int | None = None, seeds: int = 3) -> list[Run]:
    """Launch the parameters of a trial, of the best where none is named, as ``seeds`` runs that are none of the sweep,
    each with another seed."""
    require(actor, sweep.project, Permission.SWEEPS_LAUNCH)
    trial = sweep.best if number is None else sweep.trials.filter(number=number).first()
    if trial is None:
        which = "best trial yet" if number is None else f"trial {number}"
        raise Refused("no-trial", f"Sweep {sweep.name} has no {which}.")
    if not 1 <= seeds <= MAX_SEEDS:
        raise SpecError([Problem("seeds", f"must be from 1 to {MAX_SEEDS}, not {seeds}")])
    document = overlay(sweep.base_spec, trial.parameters)
    has_seed = "recipe" in (document.get("task") or {})
    if seeds > 1 and not has_seed:
        raise SpecError([Problem("seeds", f"{seeds} needs train.seed, which a script has not; accepted: 1")])
    first = int((document.get("train") or {}).get("seed", 0))
    runs = []
    for place in range(seeds):
        changes: JsonObject = {"name": f"{sweep.name[:100]}-best-{place}"}
        if has_seed:
            changes["train.seed"] = first + place
        runs.append(submit_run(actor=actor, document=merge(document, changes)))
    return runs


def _refuse_final(sweep: Sweep) -> None:
    if sweep.is_final:
        raise Refused("already-ended", f"Sweep {sweep.name} has already ended: {sweep.status}.")


def _move(sweep: Sweep, status: SweepStatus, code: str, sentence: str) -> None:
    if not sweep.move_to(status, code=code, sentence=sentence):
        raise Refused("busy", f"Sweep {sweep.name} has just changed. Try again.")


# Starting from old runs: those of the project that are points of the space count as trials that are over.


def warm_trials(sweep: Sweep) -> list[Trial]:
    """Return unsaved trials, one for each old run that fits, without numbers."""
    recipe = (sweep.base_spec.get("task") or {}).get("recipe")
    runs = Run.objects.filter(project=sweep.project, status=Status.SUCCEEDED, recipe=recipe).order_by("-ended_at")
    found = []
    for run in runs.only("id", "spec", "started_at", "ended_at")[:MOST_RUNS]:
        parameters = parameters_in(sweep.parsed, sweep.base_spec, run.spec)
        if parameters is None:
            continue
        try:
            values = [value_of([run.pk], objective) for objective in sweep.parsed.objectives]
        except NoValue:
            continue
        found.append(
            Trial(
                sweep=sweep, state=TrialState.COMPLETE, parameters=parameters, value=values[0],
                values=values if len(values) > 1 else [], by_hand=True, started_at=run.started_at,
                ended_at=run.ended_at, system_attributes={WARM: run.pk},
                reason=f"Run {run.pk}, which was there before the sweep.",
            )
        )  # fmt: skip
        if len(found) == MOST_TRIALS:
            break
    return found


def parameters_in(spec: SweepSpec, base: JsonObject, document: SpecDocument) -> JsonObject | None:
    """Return the parameters that make the base into this spec; None where there are none in the space."""
    if any(path.startswith(("task.arguments.", "task.environment.")) for path in spec.space):
        return None
    parameters: JsonObject = {}
    for path in ordered(spec.space):
        if active(spec.space[path], parameters):
            is_there, value = value_at_path(document, path)
            if not is_there:
                return None
            parameters[path] = value
    if not is_within(spec.space, parameters):
        return None
    try:
        same = parse_spec(overlay(base, parameters)).resolved()
    except SpecError:
        return None
    return parameters if _without_free(same) == _without_free(document) else None


def _without_free(document: SpecDocument) -> JsonObject:
    return {name: value for name, value in document.items() if name not in FREE}
