"""The Terminal tab: a shell beside a rank, for those who may run code there."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from dashboard.pages.run.views import HEADER, around
from dashboard.pages.shared.frame import page, show
from runs.models import Run
from runs.rights.access import Permission, get_run, why_not_enter
from runs.rights.access.operations import thing


@page(get=thing(Permission.RUNS_READ))
def terminal(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    found = ranks(run)
    context = {
        **around(request, run, "terminal"),
        "ranks": found,
        "why_not": why_not_enter(request.user, run.pk) or ("" if found else why_no_ranks(run)),
    }
    return show(request, "runs/terminal.html", context, fragments=HEADER)


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
