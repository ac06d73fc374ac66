"""When the runs of a sweep's trials held slots, and where: from the placements of their attempts."""

from __future__ import annotations

from datetime import datetime

from django.db.models import TextField
from django.db.models.functions import Cast

from runs.models import Placement, Sweep
from runs.sweep_analysis.slots import Occupation
from runs.sweeps.reading import time_of


def occupations(sweep: Sweep, now: datetime) -> list[Occupation]:
    """One query for any number of trials."""
    start, end = (Cast(f"attempt__{name}", TextField()) for name in ("created_at", "ended_at"))
    rows = Placement.objects.filter(attempt__run__trial__sweep=sweep).annotate(start=start, end=end)
    found = rows.values_list("attempt__run__trial__number", "node__name", "num_ranks", "start", "end")
    return [
        Occupation(number, node, num, (time_of(start) or now).timestamp(), (time_of(end) or now).timestamp())
        for number, node, num, start, end in found.iterator(chunk_size=5_000)
    ]
