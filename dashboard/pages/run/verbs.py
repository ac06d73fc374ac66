"""Requests on a run's page: to go back, to leave a node out, to resize, to trace. Each is a small dialog, or a page
where there are no scripts."""

from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from dashboard.pages.shared.frame import answer, is_script, page, person, show
from runs import actions
from runs.actions.tracing import MAX_STEPS, Ranks, in_words
from runs.life.rewinding import skipped_for
from runs.life.watching.slow_ranks import slow_sentences
from runs.models import Attempt, Run
from runs.records.checkpoints import read as checkpoints
from runs.records.metrics.models import Series
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import thing
from runs.sweeps.scaling import start_scaling
from trainyard.spec import Problem, SpecError

STEPS = 3
AUTO = "auto"
SIZES, DONE = "1, 2, 4", "The sizes train one after another. The page of the study is current while they do."
SCALE = {"dialog": "runs/_scale.html", "form": "runs/_scale_form.html"}
WIDTH, HEIGHT = 600.0, 48.0  # of the drawing
LEAST_WIDTH = 2.0


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
    to, first, last = (_whole(name, request.POST.get(name, "")) for name in ("to", "first", "last"))
    actions.rewind_run(actor=person(request), run=run, to=to, first=first, last=last)
    words = f"{run.name} goes back to step {to:,} and leaves out the batches of steps {first:,} to {last:,}."
    return answer(request, words)


@page(post=thing(Permission.RUNS_ANNOTATE))
def note(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    step = _whole("step", request.POST.get("step", ""))
    actions.note_step(actor=person(request), run=run, step=step, text=request.POST.get("text", ""))
    return answer(request, f"Noted at step {step:,}.")


def _suggested(run: Run) -> dict[str, int | str]:
    alarm = alarm_note(run.attempts.order_by("-number").first())
    if alarm is None:
        return {"to": "", "first": "", "last": ""}
    found = checkpoints.newest_up_to(run.pk, alarm.first - 1)
    return {"to": found.step if found else 0, "first": alarm.first, "last": alarm.last}


def _whole(name: str, text: str, accepted: str = "a step, such as 120") -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise SpecError([Problem(name, f"{text[:40]!r} is no whole number; accepted: {accepted}")])
    return int(text)


# Ranks that slow the others down, on a run's page: sentences, and the button to go on without their node.


def slow_notes(attempt: Attempt | None) -> list[dict[str, str]]:
    """Return a note for each node with slow ranks; nothing of an attempt that has ended."""
    if attempt is None or attempt.ended_at is not None:
        return []
    found = sorted(attempt.stragglers, key=lambda one: (one.node, one.rank))
    return [
        {"sentence": " ".join(slow_sentences(list(group), num_ranks=attempt.world_size)), "node": node}
        for node, group in groupby(found, key=lambda one: one.node)
    ]


@page(post=thing(Permission.RUNS_LAUNCH))
def exclude_node(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    node = request.POST.get("node", "")
    actions.exclude_node(actor=person(request), run=run, node=node)
    return answer(request, f"{run.name} goes on without {node}: its ranks save first.")


# Numbers of nodes that a run had, and the request for another number.


def nodes_over_time(run: Run, now: datetime) -> list[dict[str, object]]:
    """Return the attempts of a run whose number of nodes may change, oldest first, with their rectangles in the
    drawing; nothing of another."""
    found = list(run.attempts.order_by("number").prefetch_related("placements__node"))
    counts = [len(attempt.placements.all()) for attempt in found]
    if not found or (not run.node_counts and len(set(counts)) < 2):
        return []
    first_steps = _first_steps(run)
    start = found[0].created_at
    length_s = max(1.0, ((run.ended_at or now) - start).total_seconds())
    made = []
    for attempt, count in zip(found, counts, strict=True):
        ends = (attempt.created_at, attempt.ended_at or now)
        left, right = ((at - start).total_seconds() / length_s * WIDTH for at in ends)
        height = round(HEIGHT * count / max(*counts, 1), 1)
        stretch = {
            "number": attempt.number,
            "num_nodes": count,
            "num_ranks": attempt.world_size,
            "nodes": ", ".join(one.node.name for one in attempt.placements.all()),
            "first_step": first_steps.get(attempt.fence),
            "started_at": attempt.created_at,
            "why": attempt.reason_sentence,
            "x": round(left, 1),
            "y": HEIGHT - height,
            "width": round(max(LEAST_WIDTH, right - left), 1),
            "height": height,
        }
        made.append(stretch)
    return made


def _first_steps(run: Run) -> dict[int, int]:
    """Return by fence the first step of each attempt, of the longest series without labels."""
    series = Series.objects.filter(run_id=run.pk, labels_key="{}").exclude(name__startswith="system/")
    longest = series.order_by("-count", "name").first()
    return {} if longest is None else {int(fence): first for fence, first in longest.firsts.items()}


@page(get=thing(Permission.RUNS_LAUNCH), post=thing(Permission.RUNS_LAUNCH))
def resize(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    chosen = request.POST.get("nodes")
    if chosen is None:
        attempt = run.live_attempt()
        now = attempt.placements.count() if attempt else 0
        context = {"run": run, "counts": run.node_counts or [], "now": now, "limit": run.node_limit}
        return show(request, "runs/resize.html", context, fragments={"dialog": "runs/_resize.html"})
    nodes = None if chosen == AUTO else int(chosen) if chosen.isdecimal() and len(chosen) < 10 else -1
    actions.resize_run(actor=person(request), run=run, nodes=nodes)
    how_many = "as many nodes as there are" if nodes is None else f"{nodes} node{'' if nodes == 1 else 's'}"
    return answer(request, f"{run.name} is to train on {how_many}.")


# Asking for a study of how it scales.


@page(get=thing(Permission.SWEEPS_LAUNCH), post=thing(Permission.SWEEPS_LAUNCH))
def scale(request: HttpRequest, run_id: str) -> HttpResponse:
    run, typed, problems = get_run(request, run_id), request.POST, list[Problem]()
    if "ranks" in typed:
        try:
            ranks = [_whole("ranks", one, SIZES) for one in typed["ranks"].split(",")]
            steps = _whole("steps", typed["steps"]) if typed.get("steps", "").strip() else None
            who, spec, is_weak = person(request), dict(run.spec), "weak" in typed
            made = start_scaling(actor=who, document=spec, ranks=ranks, steps=steps, is_weak=is_weak)
            to = reverse("sweep", args=(made.pk,))
            if not is_script(request):
                return answer(request, DONE, to=to)
            return show(request, "sweeps/_done.html", {"headline": "Started", "sentence": DONE, "to": to})
        except SpecError as error:
            problems = error.errors
    context = {"run": run, "typed": typed, "usual": SIZES, "problems": problems}
    return show(request, "runs/scale.html", context, fragments=SCALE, status=422 if problems else 200)


# Asking for a trace of steps.


@page(get=thing(Permission.RUNS_LAUNCH), post=thing(Permission.RUNS_LAUNCH))
def trace(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    if "steps" not in request.POST:
        attempt = run.live_attempt()
        context = {"run": run, "steps": STEPS, "max_steps": MAX_STEPS, "world": attempt.world_size if attempt else 1}
        return show(request, "runs/trace.html", context, fragments={"dialog": "runs/_trace.html"})
    steps, ranks = _whole("steps", request.POST["steps"], f"1 to {MAX_STEPS}"), _ranks(request.POST.get("ranks", ""))
    asked = actions.trace_run(actor=person(request), run=run, steps=steps, ranks=ranks)
    where = "1 rank" if len(asked.ranks) == 1 else f"{len(asked.ranks)} ranks"
    steps_in_words = in_words(asked.first_step, asked.last_step).capitalize()
    return answer(request, f"{steps_in_words} will be traced on {where}. The traces come to the Files tab.")


def _ranks(text: str) -> Ranks:
    """Read ``all``, or numbers with commas between them."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words in ([], ["all"]):
        return "all"
    return [_whole("ranks", word, "all, or numbers such as 0, 2") for word in words]
