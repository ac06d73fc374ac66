"""When the runs of a sweep's trials held slots, and where: from the placements of their attempts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from runs.models import Placement, Sweep
from runs.sweep_analysis.slots import Occupation


def occupations(sweep: Sweep, numbers: Mapping[str, int], now: datetime) -> list[Occupation]:
    """``numbers`` are those of the trials by the id of their run. One query for any number of trials."""
    rows = Placement.objects.filter(attempt__run__trial__sweep=sweep).values_list(
        "attempt__run_id", "node__name", "num_ranks", "attempt__created_at", "attempt__ended_at"
    )
    return [
        Occupation(numbers[run], node, num, start.timestamp(), (end or now).timestamp())
        for run, node, num, start, end in rows
        if run in numbers
    ]
