"""Buttons of a run, and of many selected runs: each is one call of an action."""

from collections.abc import Callable
from functools import partial

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from dashboard.pages.shared.frame import Verb, answer, page, person, verb_of
from runs import actions
from runs.models import Run
from runs.rights.access import Forbidden, NotFound, Permission, get_project, get_run
from runs.rights.access.operations import thing

VERBS = {
    "stop": Verb(actions.stop_run, "Stopping {name}."),
    "pause": Verb(actions.pause_run, "Pausing {name}."),
    "resume": Verb(actions.resume_run, "Resumed {name}: it waits to be placed."),
    "restart": Verb(actions.restart_run, "Restarted {name}: it waits to be placed."),
    "again": Verb(actions.clone_run, "Launched {name} again, as a new run.", leads_to="result"),
    "archive": Verb(actions.archive_run, "Archived {name}.", undo="unarchive"),
    "unarchive": Verb(actions.unarchive_run, "Brought {name} back.", undo="archive"),
    "follow": Verb(actions.follow_run, "You get all notices of {name}.", undo="unfollow"),
    "mute": Verb(partial(actions.follow_run, is_muted=True), "You get no notices of {name}.", undo="unfollow"),
    "unfollow": Verb(partial(actions.follow_run, is_muted=None), "Your rules say what you get of {name}."),
    "give-up": Verb(actions.give_up_run, "Gave up on {name}."),
    "upload-leftovers": Verb(
        partial(actions.decide_leftovers, word="upload"), "The files of {name} that were left on nodes are sent."
    ),
    "discard-leftovers": Verb(
        partial(actions.decide_leftovers, word="discard"),
        "The files of {name} that were left on nodes are deleted there.",
    ),
    "delete": Verb(actions.delete_run, "Deleted {name}.", leads_to="runs"),
}


@page(post=thing(Permission.RUNS_STOP))
def do(request: HttpRequest, run_id: str, verb: str) -> HttpResponse:
    chosen = verb_of(VERBS, verb, "runs")
    run = get_run(request.user, run_id)  # the action asks for what it does: verbs differ in it
    result = chosen.action(actor=request.user, run=run)
    undo = reverse("do", args=(run_id, chosen.undo)) if chosen.undo else ""
    to = ""
    if chosen.leads_to == "result" and result is not None:
        to = reverse("run", args=(result.pk,))
    elif chosen.leads_to == "runs" and request.POST.get("from") != "table":
        to = reverse("runs")
    return answer(request, chosen.sentence.format(name=run.name), undo=undo, to=to)


@page(post=thing(Permission.RUNS_STOP))
def do_many(request: HttpRequest, verb: str) -> HttpResponse:
    """The selected runs (fields ``run``), one by one: what is refused is named, the rest is done. A selection may be
    old: a run of it that is gone, or not this person's to change, keeps nobody from the others."""
    act = FORMS[verb](request) if verb in FORMS else verb_of(VERBS, verb, "runs").action
    user = person(request)
    done, refused = 0, list[actions.Refused | NotFound | Forbidden]()
    for run_id in dict.fromkeys(request.POST.getlist("run")):
        try:
            act(actor=user, run=get_run(user, run_id))
            done += 1
        except (actions.Refused, NotFound, Forbidden) as error:
            refused.append(error)
    if refused and not done:
        raise refused[0]
    words = f"{verb.capitalize()}: done for {done} {'run' if done == 1 else 'runs'}."
    return answer(request, f"{words} {refused[0]}" if refused else words)


def _tagging(request: HttpRequest) -> Callable[..., Run | None]:
    """Return what adds the tags of the form (with commas between them) to those that a run has."""
    added = request.POST.get("tags", "").split(",")
    if not any(tag.strip() for tag in added):
        raise actions.Refused("no-tag", "Write a tag first.")
    return lambda actor, run: actions.tag_run(actor=actor, run=run, tags=[*run.tags, *added])


def _moving(request: HttpRequest) -> Callable[..., Run | None]:
    if not (name := request.POST.get("project", "")):
        raise actions.Refused("no-project", "Choose a project first.")
    return partial(actions.move_run, project=get_project(request.user, name))


FORMS = {"tag": _tagging, "move": _moving}  # verbs that ask for more than the runs


@page(post=thing(Permission.RUNS_ANNOTATE))
def annotate(request: HttpRequest, run_id: str) -> HttpResponse:
    user = person(request)
    run = get_run(request, run_id)
    actions.tag_run(actor=user, run=run, tags=request.POST.get("tags", "").split(","))
    actions.note_run(actor=user, run=run, notes=request.POST.get("notes", ""))
    return answer(request, f"Saved the tags and notes of {run.name}.")
