"""Buttons of a sweep, for whom, and the dialogs that add a trial and widen the space: each is one call of an action."""

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from dashboard.pages.launch.space_entries import entries_of, space_in
from dashboard.pages.shared.frame import Verb, answer, is_script, page, person, refusal, show, verb_of
from dashboard.pages.sweeps.columns import labels_of
from runs.models import Role, Sweep
from runs.rights.access import Permission, Someone, can, get_sweep
from runs.rights.access.operations import thing
from runs.sweeps import actions
from runs.sweeps.analysis.best import SpaceField, fields_of, text_of
from runs.sweeps.population_rows import replay_trial
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import SWEEP_FINAL, SweepStatus
from trainyard.spec import Problem, SpecError
from trainyard.spec.sweeps import Dimension
from trainyard.spec.sweeps.space import allowed
from trainyard.spec.values.fields import number_in


def offers_of(user: Someone, sweep: Sweep) -> dict[str, object]:
    """Return by verb whether the person may do it to the sweep now."""
    may_stop = can(user, sweep.project, Permission.SWEEPS_STOP)
    may_launch = can(user, sweep.project, Permission.SWEEPS_LAUNCH)
    is_ended, is_stopping = sweep.status in SWEEP_FINAL, sweep.status == SweepStatus.STOPPING
    is_own = sweep.created_by_id == getattr(user, "pk", None)
    return {
        "stop": may_stop and not is_ended and not is_stopping,
        "pause": may_stop and sweep.status == SweepStatus.RUNNING,
        "resume": may_stop and sweep.status == SweepStatus.PAUSED,
        "add": may_launch and not is_ended and not is_stopping,  # a trial, by hand
        "change": may_launch and not is_stopping,  # the space and the budget: an ended sweep then goes on
        "best": may_launch and sweep.best_id is not None,  # to launch it again…
        "again": "with three seeds" if has_seeds(sweep) else "again",  # …so often
        "clone": may_launch,
        "delete": is_ended
        and can(user, sweep.project, Permission.SWEEPS_DELETE)
        and (is_own or can(user, sweep.project, Role.MAINTAINER)),
    }


def has_seeds(sweep: Sweep) -> bool:
    """Return whether its runs have a seed: a script knows only what its arguments say."""
    return "recipe" in (sweep.base_spec.get("task") or {})


NUM_SEEDS = 3
ADD = {"dialog": "sweeps/_add.html", "form": "sweeps/_add_form.html"}
WIDEN = {"dialog": "sweeps/_widen.html", "form": "sweeps/_widen_form.html"}


VERBS = {
    "stop": Verb(actions.stop_sweep, "Stopping {name}."),
    "pause": Verb(actions.pause_sweep, "Paused {name}: the trials that run go on."),
    "resume": Verb(actions.resume_sweep, "Resumed {name}."),
}


@page(post=thing(Permission.SWEEPS_STOP))
def do(request: HttpRequest, sweep_id: str, verb: str) -> HttpResponse:
    chosen, sweep = verb_of(VERBS, verb, "sweeps"), get_sweep(request, sweep_id)
    chosen.action(actor=person(request), sweep=sweep)
    return answer(request, chosen.sentence.format(name=sweep.name), home="sweeps")


@page(post=thing(Permission.SWEEPS_LAUNCH))
def promote(request: HttpRequest, sweep_id: str, number: int) -> HttpResponse:
    """Let a trial that was stopped early go on from its checkpoint."""
    actions.promote_trial(actor=person(request), sweep=get_sweep(request, sweep_id), number=number)
    return answer(request, f"Trial {number} goes on from its checkpoint, to its end.", home="sweeps")


@page(post=thing(Permission.SWEEPS_DELETE))
def delete(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """Forget the sweep and its trials; their runs stay."""
    sweep = get_sweep(request, sweep_id)
    actions.delete_sweep(actor=person(request), sweep=sweep)
    return answer(request, f"Deleted sweep {sweep.name}. Its runs are still there.", to=reverse("sweeps"))


@page(post=thing(Permission.SWEEPS_LAUNCH))
def launch_best(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """Launch the best trial's values again, as runs of their own, and lead to their comparison."""
    sweep = get_sweep(request, sweep_id)
    if sweep.best is None:
        return refusal(request, 409, f"No trial of {sweep.name} is complete, so none is the best.")
    return _launch_again(request, sweep, sweep.best.number)


@page(post=thing(Permission.SWEEPS_LAUNCH))
def launch_trial(request: HttpRequest, sweep_id: str, number: int) -> HttpResponse:
    return _launch_again(request, get_sweep(request, sweep_id), number)


@page(post=thing(Permission.SWEEPS_LAUNCH))
def replay(request: HttpRequest, sweep_id: str, number: int) -> HttpResponse:
    """Launch what led to a trial of a population as one run, and lead to it."""
    run = replay_trial(actor=person(request), sweep=get_sweep(request, sweep_id), number=number)
    return answer(request, f"Launched what led to trial {number} as one run.", to=reverse("run", args=(run.pk,)))


@page(get=thing(Permission.SWEEPS_LAUNCH), post=thing(Permission.SWEEPS_LAUNCH))
def add(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """Add a trial with values that a person chose; the dialog starts with those of the best one."""
    sweep = get_sweep(request, sweep_id)
    problems: list[Problem] = []
    if "add" in request.POST:
        try:
            trial = actions.add_trial(actor=person(request), sweep=sweep, parameters=_parameters(request, sweep))
            return _done(request, sweep, f"Added trial {trial.number}", "It runs as soon as there is room for it.")
        except SpecError as error:
            problems = error.errors
    context = {"sweep": sweep, "fields": _trial_fields(request, sweep, problems), "problem": _rest(problems, sweep)}
    return show(request, "sweeps/add.html", context, fragments=ADD, status=422 if problems else 200)


@page(get=thing(Permission.SWEEPS_LAUNCH), post=thing(Permission.SWEEPS_LAUNCH))
def widen(request: HttpRequest, sweep_id: str) -> HttpResponse:
    """Change the ranges and choices of the space; the search goes on with what it has learnt."""
    sweep = get_sweep(request, sweep_id)
    entries, problems = entries_of(sweep.spec["space"]), list[Problem]()
    if "widen" in request.POST:
        space, entries = space_in(request.POST)
        try:
            budget = {"trials": number_in(request.POST.get("trials", ""))}
            actions.change_sweep(actor=person(request), sweep=sweep, space=space, budget=budget)
            return _done(request, sweep, "Widened the space", "The next trial is looked for in it.")
        except SpecError as error:
            problems = error.errors
    labels = labels_of(list(sweep.parsed.space))
    context = {
        "sweep": sweep,
        "entries": [(labels.get(one.path, one.path), one) for one in entries],
        "trials": request.POST.get("trials", sweep.parsed.budget.trials),
        "problems": problems,
    }
    return show(request, "sweeps/widen.html", context, fragments=WIDEN, status=422 if problems else 200)


def _launch_again(request: HttpRequest, sweep: Sweep, number: int) -> HttpResponse:
    """A script has no seed that could differ, so it is launched once."""
    seeds = NUM_SEEDS if has_seeds(sweep) else 1
    runs = actions.launch_again(actor=person(request), sweep=sweep, number=number, seeds=seeds)
    if len(runs) == 1:
        return answer(request, f"Launched trial {number} again.", to=reverse("run", args=(runs[0].pk,)))
    to = f"{reverse('compare')}?{'&'.join(f'run={run.pk}' for run in runs)}"
    return answer(request, f"Launched trial {number} again with {len(runs)} seeds.", to=to)


def _done(request: HttpRequest, sweep: Sweep, headline: str, sentence: str) -> HttpResponse:
    """Answer with the words: in place of the dialog's form, or without a script on the sweep's page."""
    if is_script(request):
        return show(request, "sweeps/_done.html", {"headline": headline, "sentence": sentence})
    return answer(request, f"{headline}. {sentence}", to=reverse("sweep", args=(sweep.pk,)))


def _parameters(request: HttpRequest, sweep: Sweep) -> JsonObject:
    """Return what was typed for each field; an empty one is left out, as where its condition is not met."""
    typed = {path: request.POST.get(path, "").strip() for path in sweep.parsed.space}
    return {path: _value(sweep.parsed.space[path], text) for path, text in typed.items() if text}


def _value(dimension: Dimension, text: str) -> object:
    """The choice that reads like this, or the number; text that is neither stays text, which the action refuses."""
    for value in dimension.values or ():
        if text_of(value) == text:
            return value
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if dimension.whole and number.is_integer() else number


def _trial_fields(request: HttpRequest, sweep: Sweep, problems: list[Problem]) -> list[JsonObject]:
    best = sweep.best.parameters if sweep.best else {}
    by_path = {path.removeprefix("parameters.").removeprefix("space."): words for path, words in problems}
    labels = labels_of(list(sweep.parsed.space))
    return [
        {
            "path": one.path,
            "label": labels[one.path],
            "value": request.POST.get(one.path, text_of(best[one.path]) if one.path in best else ""),
            "choices": one.choices,
            "help": _help(one, sweep.parsed.space[one.path], labels),
            "problem": by_path.get(one.path, ""),
        }
        for one in fields_of(sweep.parsed.space)
    ]


def _help(field: SpaceField, dimension: Dimension, labels: Mapping[str, str]) -> str:
    conditions = [f"{labels[key]} is {' or '.join(map(text_of, allowed(one)))}" for key, one in dimension.when.items()]
    sentences = [] if field.is_choice else [f"The search looks from {field.low:g} to {field.high:g}."]
    sentences += [f"Only when {' and '.join(conditions)}; else leave it empty."] if conditions else []
    return " ".join(sentences)


def _rest(problems: list[Problem], sweep: Sweep) -> str:
    """Return the problems that stand beside no field."""
    paths = set(sweep.parsed.space)
    known = [one for one in problems if one.path.removeprefix("parameters.").removeprefix("space.") not in paths]
    return "; ".join(map(str, known))
