"""How long runs are expected to hold their slots: a live one by its own steps, a waiting one by runs that were alike.

What nobody has measured is taken from the plan, then from ``limits.time``; else nobody can say.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from runs.models import Cluster, HeldSlot, Run
from runs.placing.fitting import Request, Room
from runs.placing.spans import Span, same, span_of
from runs.records.metrics.models import Telemetry
from runs.values.status import Status

HISTORY = 2_000  # newest runs of a cluster that are looked at
LATELY = timedelta(days=60)
SURE = 0.1  # the part by which an end that follows from measured steps may be wrong

Key = tuple[str, str, float]  # project, name or person, slots


class History:
    """Durations of runs of a cluster that ended well of late."""

    def __init__(self, cluster: Cluster, now: datetime) -> None:
        rows = Run.objects.filter(cluster=cluster, status=Status.SUCCEEDED, ended_at__gte=now - LATELY, fence__gt=0)
        columns = rows.exclude(started_at=None).order_by("-ended_at").values_list(
            "project__name", "name", "created_by", "num_nodes", "slots_per_node", "slot_shares", "started_at",
            "ended_at",
        )  # fmt: skip
        self._alike: dict[Key, list[float]] = defaultdict(list)
        for project, name, person, nodes, slots, shares, start, end in columns[:HISTORY]:
            assert start is not None and end is not None, "the filter has no others"
            size = (nodes or 1) * (slots or 1) / shares
            for what in (name, f"person {person}"):
                self._alike[project, what, size].append((end - start).total_seconds())

    def of(self, project: str, name: str, person: int | None, size: float, elapsed: float = 0.0) -> Span | None:
        """Return what runs of that name and size say, else those of the person."""
        named = span_of(self._alike.get((project, name, size), ()), elapsed)
        return named or span_of(self._alike.get((project, f"person {person}", size), ()), elapsed)

    def lasting(self, request: Request, name: str, planned_s: float | None, limit_s: float | None) -> Span | None:
        """Return how long a run that has not started is expected to hold its slots; None where nobody can say."""
        if (span := self.of(request.project, name, request.person, request.whole_slots)) or not planned_s:
            return span or (same(limit_s, low=0.1) if limit_s else None)
        return same(planned_s, low=0.5, high=2.0)


def lasts_of(requests: Sequence[Request], history: History) -> dict[str, Span]:
    """Return how long each of the requests is expected to hold its slots, where somebody can say."""
    own = {one.run: one for one in requests}
    rows = Run.objects.filter(pk__in=own).values_list("pk", "name", "planned_s", "limit_s")
    found = {run: history.lasting(own[run], name, planned, limit) for run, name, planned, limit in rows}
    return {run: span for run, span in found.items() if span}


def ends_of(cluster: Cluster, now: datetime, history: History) -> dict[str, Span]:
    """Return in how many seconds each run that holds slots of the cluster is expected to give them back."""
    holders = HeldSlot.objects.filter(node__cluster=cluster).values("placement__attempt__run")
    rows = Run.objects.filter(pk__in=holders).values_list(
        "pk", "project__name", "name", "created_by", "num_nodes", "slots_per_node", "slot_shares", "started_at",
        "num_steps", "limit_s", "fence",
    )  # fmt: skip
    telemetry = Telemetry.objects.in_bulk([row[0] for row in rows])
    found = {}
    for run, project, name, person, nodes, slots, shares, started_at, steps, limit, fence in rows:
        elapsed = (now - started_at).total_seconds() if started_at else 0.0
        known = telemetry.get(run)
        span = None
        if steps and known and known.step is not None and known.median_step_s and known.attempt == fence:
            since = now.timestamp() - (known.step_at or now.timestamp())
            left = max(0.0, (steps - known.step) * known.median_step_s - since)
            span = same(left, low=1 - SURE, high=1 + SURE)
        span = span or history.of(project, name, person, (nodes or 1) * (slots or 1) / shares, elapsed)
        if span is None and limit:
            span = same(max(1.0, limit - elapsed), low=0.1)
        if span is not None:
            found[run] = span
    return found


def with_ends(cluster: Cluster, rooms: Sequence[Room], ends: Mapping[str, Span]) -> list[Room]:
    """Return the rooms with the time at which each held slot is expected to come free."""
    by_node: dict[str, dict[int, float]] = defaultdict(dict)
    held = HeldSlot.objects.filter(node__cluster=cluster).values_list("node", "index", "placement__attempt__run")
    for node, index, run in held:
        if run in ends:
            by_node[node][index] = max(by_node[node].get(index, 0.0), ends[run].expected)
    return [replace(room, ends=by_node[room.node]) if room.node in by_node else room for room in rooms]
