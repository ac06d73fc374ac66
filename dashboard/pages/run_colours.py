"""The colour of a run, the same everywhere: which of the series colours follows from its id alone."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from runs.access import Someone
from runs.models import Run, Workspace

NUM_COLOURS = 10  # of static/css/tokens.css


def colour_of(run_id: str) -> int:
    """Return the index of the run's colour, from 0, where nobody chose another."""
    return crc32(run_id.encode()) % NUM_COLOURS


def colours_for(user: Someone, runs: Sequence[Run]) -> dict[str, int]:
    """Return the index of each run's colour as that person sees it: the one they chose, else the run's own."""
    chosen = _chosen(user, runs)
    return {run.pk: chosen.get(run.pk, colour_of(run.pk)) for run in runs}


def colours_apart(user: Someone, runs: Sequence[Run]) -> dict[str, int]:
    """Return indexes for runs that stand side by side: as ``colours_for``, but a run whose colour an earlier one has
    gets the next that is free, while there are any. What a person chose stays."""
    given = _chosen(user, runs)
    for run in runs:
        if run.pk in given:
            continue
        own, taken = colour_of(run.pk), set(given.values())
        nearest = ((own + step) % NUM_COLOURS for step in range(NUM_COLOURS))
        given[run.pk] = next((colour for colour in nearest if colour not in taken), own)
    return given


def _chosen(user: Someone, runs: Sequence[Run]) -> dict[str, int]:
    """What the person chose in any of the runs' projects. The state is a browser's: nothing in it is taken on trust."""
    wanted, found = {run.pk for run in runs}, {}
    kept = Workspace.objects.filter(user=user.pk, project__in={run.project_id for run in runs})
    for state in kept.values_list("state", flat=True):
        colours = state.get("colours") if isinstance(state, dict) else None
        for run_id, colour in colours.items() if isinstance(colours, dict) else ():
            if run_id in wanted and type(colour) is int and 0 <= colour < NUM_COLOURS:
                found[run_id] = colour
    return found
