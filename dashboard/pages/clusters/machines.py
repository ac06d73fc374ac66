"""What an engine that brings nodes may bring, and which machines it has asked its system for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import Sum

from runs.access import Someone, visible_runs
from runs.engines import allocating_engine
from runs.engines.allocating import Offer
from runs.models import Allocation, Cluster, Node, Run
from runs.ordered import first_rows

MAX_JOBS = 50


class JobLine(NamedTuple):
    """``run`` is None where it is of a project that this person does not see."""

    job: str
    run: Run | None
    state: str
    hosts: str
    words: str  # why it is pending, or what is wrong
    since: datetime


class MachinesView(NamedTuple):
    engine: str  # the system's name
    num_machines: int
    slots: str  # on each, in words
    num_free: int  # slots of machines that nobody uses
    jobs: list[JobLine]


def machines_view(user: Someone, cluster: Cluster) -> MachinesView | None:
    """Return None for a cluster whose nodes stay."""
    engine = allocating_engine(cluster.engine)
    if engine is None:
        return None
    offers = engine.offers(cluster)
    rows = Allocation.objects.filter(attempt__run__cluster=cluster).exclude(state=Allocation.State.OVER)
    allocations = first_rows(rows.select_related("attempt").order_by("created_at", "pk"), MAX_JOBS)
    seen = visible_runs(user).in_bulk([one.attempt.run_id for one in allocations])
    lines = [_line(one, seen.get(one.attempt.run_id)) for one in allocations]
    unused = Node.objects.filter(cluster=cluster, kind=Node.Kind.OFFERED, removed_at=None, placements=None)
    num_free = unused.aggregate(total=Sum("slots"))["total"] or 0
    return MachinesView(engine.label, sum(one.num_machines for one in offers), _slots(offers), num_free, lines)


def _slots(offers: Sequence[Offer]) -> str:
    """Return ``"2 slots"``, or from how many to how many where machines differ."""
    numbers = sorted({offer.slots for offer in offers}) or [0]
    words = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"{words} slot{'' if numbers == [1] else 's'}"


def _line(allocation: Allocation, run: Run | None) -> JobLine:
    words = allocation.problem or allocation.sentence
    hosts = ", ".join(str(host) for host in allocation.hosts)
    return JobLine(allocation.job, run, allocation.state, hosts, words if run else "", allocation.created_at)
