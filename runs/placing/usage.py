"""Use of slots: what each attempt held, and for how long. And the standings of projects, which come of it."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import exp, log
from typing import NamedTuple

from django.core.cache import cache
from django.db.models import F, Q, Sum
from django.db.models.functions import Coalesce

from runs.models import Attempt, Cluster, HeldSlot, Project, Run
from runs.placing.policies import Standing, Standings
from runs.values.status import Status

HALF_LIVES = 10  # behind which use counts less than a thousandth
KEPT_S = 30


class Use(NamedTuple):
    """Slots that an attempt held, from ``start`` to ``end`` in Unix seconds."""

    project: str
    person: str
    cluster: str
    run: str
    slots: float
    start: float
    end: float

    @property
    def slot_s(self) -> float:
        return self.slots * max(0.0, self.end - self.start)

    def within(self, start: float, end: float) -> "Use":
        return self._replace(start=max(self.start, start), end=min(self.end, end))

    def decayed(self, now: float, half_life_s: float) -> float:
        """Return its slot-seconds, of which those a half-life ago count half."""
        rate = log(2) / half_life_s
        return self.slots * (exp(-rate * (now - self.end)) - exp(-rate * (now - self.start))) / rate


def uses(attempts: Q, since: datetime, now: datetime) -> Iterator[Use]:
    """Yield what the attempts that fit held after ``since``. A live one holds its slots until ``now``."""
    rows = Attempt.objects.filter(attempts, Q(ended_at=None) | Q(ended_at__gt=since), created_at__lt=now).values_list(
        "run__project__name", "run__created_by__username", "run__cluster__name", "run", "world_size",
        "run__slot_shares", "created_at", "ended_at",
    )  # fmt: skip
    for project, person, cluster, run, slots, shares, start, end in rows.iterator():
        until = min(end or now, now).timestamp()
        yield Use(project, person or "", cluster or "", run, slots / shares, start.timestamp(), until)


def first_of_month(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def used_this_month(now: datetime, projects: Collection[str]) -> dict[str, tuple[float, float]]:
    """Return the slot-hours of the projects on all clusters since the first of the month (UTC), and what they cost by
    the prices of now, at most KEPT_S old. On a cluster without a price they cost nothing."""
    first = first_of_month(now)
    keys = {f"used-month:{first:%Y-%m}:{name}": name for name in projects}
    found: dict[str, tuple[float, float]] = {keys[key]: used for key, used in cache.get_many(keys).items()}
    if missing := [name for name in projects if name not in found]:
        prices = dict(Cluster.objects.values_list("name", "slot_hour_price"))
        found |= dict.fromkeys(missing, (0.0, 0.0))
        for one in uses(Q(run__project__name__in=missing), first, now):
            hours = one.within(first.timestamp(), now.timestamp()).slot_s / 3600
            before, cost = found[one.project]
            found[one.project] = before + hours, cost + hours * (prices.get(one.cluster) or 0.0)
        cache.set_many({key: found[name] for key, name in keys.items() if name in missing}, KEPT_S)
    return found


def standings_of(cluster: Cluster, now: datetime, *, reads_used: bool) -> Standings:
    """Return where each project that may use the cluster, or does, stands there."""
    held = held_by_project(cluster)
    used = _used(cluster, now) if reads_used else {}
    projects = Project.objects.filter(Q(clusters=cluster) | Q(name__in=held)).distinct()
    return {
        name: Standing(held.get(name, 0.0), used.get(name, 0.0), weight, guaranteed, group, group_weight or 1.0)
        for name, weight, guaranteed, group, group_weight in projects.values_list(
            "name", "weight", "guaranteed_slots", "share_group", "group_weight"
        )
    }


def held_by_project(cluster: Cluster) -> dict[str, float]:
    """Return how many slots of the cluster each project holds, by the project's name."""
    slots = HeldSlot.objects.filter(node__cluster=cluster)
    rows = slots.values(name=F("placement__attempt__run__project__name")).annotate(held=Sum(1.0 / F("num_shares")))
    return dict(rows.values_list("name", "held"))


@dataclass
class Held:
    """What a project has now, on all clusters. A run that starts again has what it is to get, while it holds none."""

    slots: float = 0.0
    runs: set[str] = field(default_factory=set)
    by_person: dict[int, float] = field(default_factory=lambda: defaultdict(float))  # slots


def held_of(projects: Collection[str]) -> dict[str, Held]:
    """Return what the projects of these names have now."""
    run, again = "placement__attempt__run", (Status.RECOVERING, Status.RESIZING)
    slots = HeldSlot.objects.filter(**{f"{run}__project__name__in": projects}).order_by()
    rows = slots.values_list(f"{run}__project__name", f"{run}__created_by", run).annotate(n=Sum(1.0 / F("num_shares")))
    starting = Run.objects.filter(project__name__in=projects, status__in=again).exclude(pk__in=slots.values(run))
    size = Coalesce(1.0 * F("num_nodes") * F("slots_per_node") / F("slot_shares"), 0.0)
    found = {name: Held() for name in projects}
    for project, person, run_id, number in [
        *rows, *starting.order_by().values_list("project__name", "created_by", "pk", size),
    ]:  # fmt: skip
        one = found[project]
        one.slots += number
        one.runs.add(run_id)
        one.by_person[person or 0] += number
    return found


def _used(cluster: Cluster, now: datetime) -> dict[str, float]:
    """Return the decayed slot-seconds of each project, as they were at most KEPT_S ago."""
    key = f"used-slots:{cluster.pk}:{cluster.half_life_days}"
    kept: dict[str, float] | None = cache.get(key)
    if kept is None:
        half_life = timedelta(days=cluster.half_life_days)
        kept = defaultdict(float)
        for one in uses(Q(run__cluster=cluster), now - HALF_LIVES * half_life, now):
            kept[one.project] += one.decayed(now.timestamp(), half_life.total_seconds())
        cache.set(key, dict(kept), KEPT_S)
    return kept
