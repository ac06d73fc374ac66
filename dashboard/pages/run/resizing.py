"""How many nodes a run had, and asking for another number: a small dialog, or a page where there are no scripts."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse

from dashboard.pages.shared.frame import answer, page, person, refusal, show
from runs import actions
from runs.models import Attempt, Run
from runs.records.metrics.models import Series
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import thing

AUTO = "auto"
WIDTH, HEIGHT = 600.0, 48.0  # of the drawing
LEAST_WIDTH = 2.0


class Stretch(NamedTuple):
    """One attempt: on which nodes it was, from which step on, and its rectangle in the drawing."""

    number: int
    num_nodes: int
    num_ranks: int
    nodes: str
    first_step: int | None
    started_at: datetime
    ended_at: datetime | None
    why: str  # it ended
    x: float
    width: float
    height: float

    @property
    def y(self) -> float:
        return HEIGHT - self.height


def nodes_over_time(run: Run, now: datetime) -> list[Stretch]:
    """Return the attempts of a run whose number of nodes may change, oldest first; nothing of another."""
    found = list(run.attempts.order_by("number").prefetch_related("placements__node"))
    counts = [len(attempt.placements.all()) for attempt in found]
    if not found or (not run.node_counts and len(set(counts)) < 2):
        return []
    first_steps = _first_steps(run)
    start = found[0].created_at
    length_s = max(1.0, ((run.ended_at or now) - start).total_seconds())
    return [
        _stretch(attempt, count, max(counts), first_steps.get(attempt.fence), (start, length_s), now)
        for attempt, count in zip(found, counts, strict=True)
    ]


def _first_steps(run: Run) -> dict[int, int]:
    """Return by fence the first step of each attempt, of the longest series without labels."""
    series = Series.objects.filter(run_id=run.pk, labels_key="{}").exclude(name__startswith="system/")
    longest = series.order_by("-count", "name").first()
    return {} if longest is None else {int(fence): first for fence, first in longest.firsts.items()}


def _stretch(
    attempt: Attempt, count: int, most: int, first: int | None, scale: tuple[datetime, float], now: datetime
) -> Stretch:
    placements = list(attempt.placements.all())
    start, length_s = scale
    left = (attempt.created_at - start).total_seconds() / length_s * WIDTH
    right = ((attempt.ended_at or now) - start).total_seconds() / length_s * WIDTH
    return Stretch(
        number=attempt.number,
        num_nodes=count,
        num_ranks=attempt.world_size,
        nodes=", ".join(one.node.name for one in placements),
        first_step=first,
        started_at=attempt.created_at,
        ended_at=attempt.ended_at,
        why=attempt.reason_sentence,
        x=round(left, 1),
        width=round(max(LEAST_WIDTH, right - left), 1),
        height=round(HEIGHT * count / max(most, 1), 1),
    )


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
    try:
        actions.resize_run(actor=person(request), run=run, nodes=nodes)
    except ValidationError as error:
        return refusal(request, 422, " ".join(error.messages))
    how_many = "as many nodes as there are" if nodes is None else f"{nodes} node{'' if nodes == 1 else 's'}"
    return answer(request, f"{run.name} is to train on {how_many}.")
