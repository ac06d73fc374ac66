"""Going back to a step and skipping batches: a small dialog, or a page where there are no scripts."""

from __future__ import annotations

from typing import NamedTuple

from django.http import HttpRequest, HttpResponse

from dashboard.pages.shared.frame import answer, page, person, refusal, show
from runs import actions
from runs.life.rewinding import skipped_for
from runs.models import Attempt, Run
from runs.records.checkpoints import read as checkpoints
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import thing
from trainyard.spec import Problem, SpecError


class AlarmNote(NamedTuple):
    """The newest alarm of a live attempt, and what going back from it would be."""

    sentence: str
    num_more: int
    first: int
    last: int


def alarm_note(attempt: Attempt | None) -> AlarmNote | None:
    if attempt is None or not attempt.alarms:
        return None
    alarms = attempt.known_alarms
    first, last = skipped_for(alarms[-1])
    return AlarmNote(alarms[-1].sentence, len(alarms) - 1, first, last)


@page(get=thing(Permission.RUNS_LAUNCH), post=thing(Permission.RUNS_LAUNCH))
def rewind(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    if "to" not in request.POST:
        context = {"run": run, **_suggested(run)}
        return show(request, "runs/rewind.html", context, fragments={"dialog": "runs/_rewind.html"})
    try:
        to, first, last = (_whole(name, request.POST.get(name, "")) for name in ("to", "first", "last"))
        actions.rewind_run(actor=person(request), run=run, to=to, first=first, last=last)
    except SpecError as error:
        return refusal(request, 422, "; ".join(map(str, error.errors)))
    return answer(
        request, f"{run.name} goes back to step {to:,} and leaves out the batches of steps {first:,} to {last:,}."
    )


def _suggested(run: Run) -> dict[str, int | str]:
    attempt = run.attempts.order_by("-number").first()
    if attempt is None or not attempt.alarms:
        return {"to": "", "first": "", "last": ""}
    first, last = skipped_for(attempt.known_alarms[-1])
    found = checkpoints.newest_up_to(run.pk, first - 1)
    return {"to": found.step if found else 0, "first": first, "last": last}


def _whole(name: str, text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise SpecError([Problem(name, f"{text[:40]!r} is no step; accepted: a whole number")])
    return int(text)
