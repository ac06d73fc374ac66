"""Asking for a trace of steps: a small dialog, or a page where there are no scripts."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from dashboard.pages.shared.frame import answer, page, person, refusal, show
from runs import actions
from runs.actions.tracing import MAX_STEPS, Ranks, in_words
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import thing
from trainyard.spec import Problem, SpecError

STEPS = 3


@page(get=thing(Permission.RUNS_LAUNCH), post=thing(Permission.RUNS_LAUNCH))
def trace(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    if "steps" not in request.POST:
        attempt = run.live_attempt()
        context = {"run": run, "steps": STEPS, "max_steps": MAX_STEPS, "world": attempt.world_size if attempt else 1}
        return show(request, "runs/trace.html", context, fragments={"dialog": "runs/_trace.html"})
    try:
        steps, ranks = _whole("steps", request.POST["steps"]), _ranks(request.POST.get("ranks", ""))
        asked = actions.trace_run(actor=person(request), run=run, steps=steps, ranks=ranks)
    except SpecError as error:
        return refusal(request, 422, "; ".join(map(str, error.errors)))
    where = "1 rank" if len(asked.ranks) == 1 else f"{len(asked.ranks)} ranks"
    steps_in_words = in_words(asked.first_step, asked.last_step).capitalize()
    sentence = f"{steps_in_words} will be traced on {where}. The traces come to the Files tab."
    return answer(request, sentence)


def _ranks(text: str) -> Ranks:
    """Read ``all``, or numbers with commas between them."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words in ([], ["all"]):
        return "all"
    return [_whole("ranks", word) for word in words]


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        accepted = "all, or numbers such as 0, 2" if name == "ranks" else f"1 to {MAX_STEPS}"
        raise SpecError([Problem(name, f"{text[:40]!r} is no whole number; accepted: {accepted}")])
    return int(text)
