"""Facts that ranks reported about their run: documents by name, the newest of each attempt and rank."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from runs.records.metrics.models import Fact
from trainyard.contract.base import BadDocument, JsonObject, convert

MAX_PER_RUN = 10_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReportedFact:
    name: str
    data: JsonObject
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


def facts_of(run_id: str, name: str, kind: type[T], *, attempt: int | None = None) -> dict[int, T]:
    """Return by rank what was reported under ``name``: of that attempt (a fence), else of the newest with any. What is
    no ``kind`` is left out: a script may report anything."""
    found = Fact.objects.filter(run_id=run_id, name=name)
    if attempt is None:
        attempt = found.order_by("-attempt").values_list("attempt", flat=True).first() or 0
    made = {}
    for rank, data in found.filter(attempt=attempt).order_by("rank").values_list("rank", "data"):
        with suppress(BadDocument):
            made[rank] = convert(data, kind)
    return made
