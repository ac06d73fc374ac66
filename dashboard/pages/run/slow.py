"""Ranks that slow the others down, on a run's page: sentences, and the button to go on without their node."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse

from dashboard.pages.shared.frame import answer, page, person
from runs import actions
from runs.life.stopping import what_ranks_do
from runs.life.watching.words import slow_sentences
from runs.models import Attempt, Run
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import thing


class SlowNote(NamedTuple):
    sentence: str
    node: str


def slow_notes(attempt: Attempt | None) -> list[SlowNote]:
    """Return a note for each node with slow ranks; nothing of an attempt that has ended."""
    if attempt is None or attempt.ended_at is not None:
        return []
    found = sorted(attempt.stragglers, key=lambda one: (one.node, one.rank))
    return [
        SlowNote(" ".join(slow_sentences(list(group), num_ranks=attempt.world_size)), node)
        for node, group in groupby(found, key=lambda one: one.node)
    ]


def exclude_words(run: Run, attempt: Attempt | None) -> str:
    """What the button does, for the question before it."""
    return f"At first {what_ranks_do(run, attempt)}. Then the run goes on from it, on other nodes."


@page(post=thing(Permission.RUNS_LAUNCH))
def exclude_node(request: HttpRequest, run_id: str) -> HttpResponse:
    run = get_run(request, run_id)
    node = request.POST.get("node", "")
    actions.exclude_node(actor=person(request), run=run, node=node)
    return answer(request, f"{run.name} goes on without {node}: its ranks save first.")
