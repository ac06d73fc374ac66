"""The colour of a run, the same on every page: what the person chose, else what a comparison gave it, else its own."""

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

from django.db import transaction

from runs.models import Run, User, Workspace
from runs.rights.access import Someone

NUM_COLOURS = 10  # of static/css/tokens.css
MAX_KEPT = 2_000  # colours that comparisons gave, in one project; the oldest go first


def colour_of(run_id: str) -> int:
    """Return the index of the run's colour, from 0, where nobody has given it another."""
    return crc32(run_id.encode()) % NUM_COLOURS


def colours_for(user: Someone, runs: Sequence[Run]) -> dict[str, int]:
    """Return the index of each run's colour as that person sees it."""
    chosen, given = _kept(user, runs)
    return {run.pk: chosen.get(run.pk, given.get(run.pk, colour_of(run.pk))) for run in runs}


def colours_apart(user: Someone, runs: Sequence[Run], *, is_kept: bool = True) -> dict[str, int]:
    """Return indexes for runs that stand side by side: up to ten have ten colours, unless the person chose otherwise.

    A run whose colour an earlier one has gets the next that is free. All of them keep what they have now: this person
    sees them in these colours on every page from then on, where it ``is_kept``.
    """
    chosen, given = _kept(user, runs)
    made = dict(chosen)
    for run in sorted(runs, key=lambda run: run.pk not in given):  # who was given one before keeps it
        if run.pk in made:
            continue
        wanted, taken = given.get(run.pk, colour_of(run.pk)), set(made.values())
        nearest = ((wanted + step) % NUM_COLOURS for step in range(NUM_COLOURS))
        made[run.pk] = next((colour for colour in nearest if colour not in taken), wanted)
    new = [run for run in runs if run.pk not in chosen and made[run.pk] != given.get(run.pk)]
    if is_kept and new and isinstance(user, User):
        _keep(user, new, made)
    return {run.pk: made[run.pk] for run in runs}


def _keep(user: User, new: Sequence[Run], made: Mapping[str, int]) -> None:
    for project_id in {run.project_id for run in new}:
        mine = {run.pk: made[run.pk] for run in new if run.project_id == project_id}
        with transaction.atomic():
            workspace, _ = Workspace.objects.select_for_update().get_or_create(user=user, project_id=project_id)
            before = workspace.run_colours if isinstance(workspace.run_colours, dict) else {}
            kept = {run_id: colour for run_id, colour in before.items() if run_id not in mine} | mine
            workspace.run_colours = dict(list(kept.items())[-MAX_KEPT:])
            workspace.save(update_fields=["run_colours"])


def _kept(user: Someone, runs: Sequence[Run]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the colours that the person chose, and those that comparisons gave, in any of the runs' projects."""
    wanted = {run.pk for run in runs}
    chosen: dict[str, int] = {}
    given: dict[str, int] = {}
    rows = Workspace.objects.filter(user=user.pk, project__in={run.project_id for run in runs})
    for state, run_colours in rows.values_list("state", "run_colours"):
        chosen |= _tidy(state.get("colours") if isinstance(state, dict) else None, wanted)
        given |= _tidy(run_colours, wanted)
    return chosen, given


def _tidy(colours: Any, wanted: set[str]) -> dict[str, int]:
    """The state is a browser's: nothing in it is taken on trust."""
    return {
        run_id: colour
        for run_id, colour in (colours.items() if isinstance(colours, dict) else ())
        if run_id in wanted and type(colour) is int and 0 <= colour < NUM_COLOURS
    }
