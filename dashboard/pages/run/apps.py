"""The tabs Apps and Terminal. Apps: what listens beside the ranks of a run, such as TensorBoard, opened in an origin of
its own."""

from contextlib import suppress

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from dashboard.pages.run.views import HEADER, around, tab
from dashboard.pages.shared.frame import page, person, show
from runs.interactive import app_tickets
from runs.interactive.addresses import MAX_PORT, App
from runs.models import Run
from runs.rights.access import Permission, get_run, why_not_enter
from runs.rights.access.operations import thing
from runs.values.refused import Refused

TENSORBOARD_PORT = 6006
LIMITS = (("rank", 999_999), ("port", MAX_PORT))


@page(get=thing(Permission.RUNS_READ), post=thing(Permission.RUNS_ENTER))
def apps(request: HttpRequest, run_id: str) -> HttpResponse:
    if request.method == "POST":
        return _open(request, run_id)
    run = get_run(request.user, run_id)
    found = ranks(run)
    no_ranks = "" if found else why_no_ranks(run).replace("A terminal opens", "Apps open")
    words = f"trainyard exec {run.pk} --timeout 86400 -- sh -c"
    notebook_port = None
    with suppress(Refused):  # it has none, or none now
        notebook_port = app_tickets.port_of(run)
    context = {
        **around(request, run, "apps"),
        "ranks": found,
        "notebook_port": notebook_port,
        "is_notebook": app_tickets.is_notebook(run),
        "is_served": app_tickets.proxy_origin() is not None,
        "tensorboard_port": TENSORBOARD_PORT,
        "command": f"{words} 'tensorboard --logdir \"$TRAINYARD_OUTPUT\" --port {TENSORBOARD_PORT}'",
        "why_not": why_not_enter(request.user, run.pk) or no_ranks,
    }
    return show(request, "runs/apps.html", context, fragments=HEADER)


def _open(request: HttpRequest, run_id: str) -> HttpResponse:
    """Lead the browser to the app: by a page of ours, since a form may lead to our own origin alone."""
    run = get_run(request.user, run_id, Permission.RUNS_ENTER)
    rank, port = (_whole(name, request.POST.get(name, ""), most) for name, most in LIMITS)
    secret = str(request.session.session_key)
    url = app_tickets.issue(actor=person(request), app=App(run.pk, rank, port), secret=secret, is_token=False)
    return show(request, "runs/opening.html", {"run": run, "url": url, "rank": rank, "port": port})


def _whole(name: str, text: str, most: int) -> int:
    """Raises ValidationError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 8 and int(text) <= most):
        raise ValidationError({name: f"{text[:40]!r} is no whole number up to {most:,}."})
    return int(text)


# The Terminal tab: a shell beside a rank, for those who may run code there.


@tab
def terminal(request: HttpRequest, run: Run) -> dict[str, object]:
    found = ranks(run)
    return {"ranks": found, "why_not": why_not_enter(request.user, run.pk) or ("" if found else why_no_ranks(run))}


def ranks(run: Run) -> list[tuple[int, str]]:
    """Return the ranks of the live attempt with their nodes."""
    attempt = run.live_attempt()
    if attempt is None:
        return []
    placements = attempt.placements.select_related("node").order_by("first_rank")
    return [(one.first_rank + local, one.node.name) for one in placements for local in range(one.num_ranks)]


def why_no_ranks(run: Run) -> str:
    if run.is_live:
        return f"Run {run.name} is {run.status} and has no ranks now. A terminal opens beside one that runs."
    return f"Run {run.name} has ended, and its ranks with it. A terminal opens beside a rank that runs."
