"""Facts that ranks reported about their run: documents by name, the newest of each attempt and rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runs.metrics.models import Fact

MAX_PER_RUN = 10_000


@dataclass(frozen=True, slots=True)
class ReportedFact:
    name: str
    data: dict[str, Any]
    at: float


def write_facts(run_id: str, *, attempt: int, items: Iterable[tuple[int, ReportedFact]]) -> int:
    """Store facts of ranks of ``attempt`` (a fence), the last of each name and rank; return how many had no room."""
    newest = {(one.name, rank): one for rank, one in items}
    room = MAX_PER_RUN - Fact.objects.filter(run_id=run_id).count()
    num_lost = 0
    for (name, rank), one in newest.items():
        values = {"data": one.data, "at": one.at}
        if Fact.objects.filter(run_id=run_id, attempt=attempt, name=name, rank=rank).update(**values):
            continue
        if room <= 0:
            num_lost += 1
            continue
        Fact.objects.create(run_id=run_id, attempt=attempt, name=name, rank=rank, **values)
        room -= 1
    return num_lost


def facts_of(run_id: str, name: str, *, attempt: int | None = None) -> dict[int, dict[str, Any]]:
    """Return the facts named ``name`` by rank: of that attempt (a fence), else of the newest that has any."""
    found = Fact.objects.filter(run_id=run_id, name=name)
    if attempt is None:
        attempt = found.order_by("-attempt").values_list("attempt", flat=True).first() or 0
    return dict(found.filter(attempt=attempt).order_by("rank").values_list("rank", "data"))
