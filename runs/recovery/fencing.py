"""Whether ranks of an earlier attempt may still train: then the next one must not start."""

from __future__ import annotations

from runs.models import Attempt, Run
from runs.status import Phase
from trainyard.spec.survival import outlives_workers


def unconfirmed_nodes(run: Run) -> list[str]:
    """Return the names of nodes that must confirm first that nothing of the run is left there; none: it may start.

    One node whose ranks are gone is proof enough for all, where none can step without the others.
    """
    held = Attempt.objects.filter(run=run, placements__held_slots__isnull=False, go__isnull=False)
    for attempt in held.distinct().prefetch_related("placements__node"):
        parts = list(attempt.placements.all())
        open_names = [part.node.name for part in parts if part.phase not in (Phase.ENDED, Phase.REFUSED)]
        if len(open_names) == len(parts) or (open_names and outlives_workers(run.spec)):
            return open_names
    return []
