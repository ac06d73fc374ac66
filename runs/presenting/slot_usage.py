"""Use of slots by project, person, cluster or week: what was held, what of it trained nothing, energy and price."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from django.db.models import Q

from runs.models import Cluster, Run
from runs.placing.usage import Use, uses
from runs.presenting.annex import WATTS, measured_joules, with_gpus
from runs.records.time_use.sums import times_shown
from runs.rights.access import Someone, visible_runs
from trainyard.grouping import grouped

By = Literal["project", "person", "cluster", "week"]
WEEK_S, MONDAY_S = 7 * 86_400.0, 4 * 86_400.0  # a week, and when the first Monday of Unix time began
MOST_READ = 500  # runs whose times and meters are read, those with the most slot-seconds; the others count by these


class Used(NamedTuple):
    """``idle_seconds``: slot-seconds in which slots were held and no step was trained. ``energy_joules`` is measured
    where GPUs have meters (``is_measured``: all of it), else estimated. ``cost``: None where a cluster has no price."""

    name: str
    slot_seconds: float = 0.0
    idle_seconds: float = 0.0
    energy_joules: float = 0.0
    is_measured: bool = True
    cost: float | None = 0.0


def usage_of(user: Someone, start: datetime, end: datetime, by: By, now: datetime) -> list[Used]:
    """Return what the runs that the person sees have used in the time, the most first; of weeks the newest first."""
    ids = visible_runs(user).values("pk")
    every = uses(Q(run__in=ids), start, min(end, now))
    by_run = grouped((one.run, one.within(start.timestamp(), end.timestamp())) for one in every)
    most = sorted(by_run, key=lambda run: -sum(one.slot_s for one in by_run[run]))[:MOST_READ]
    runs = list(Run.objects.filter(pk__in=most))
    lives = grouped((one.run, one) for one in uses(Q(run__in=most), datetime.fromtimestamp(0, now.tzinfo), now))
    idle, on_gpus = _idle_shares(runs, lives, now), with_gpus(by_run)
    held = {run: sum(one.slot_s for one in life) or 1.0 for run, life in lives.items()}
    meters = {run.pk: measured_joules(run) / held[run.pk] for run in runs if run.pk in on_gpus}
    prices = dict(Cluster.objects.values_list("name", "slot_hour_price"))
    found: dict[str, Used] = {}
    for run_id, parts in by_run.items():
        is_measured, price = meters.get(run_id, 0.0) > 0, prices.get(parts[0].cluster)
        energy = meters[run_id] if is_measured else WATTS["gpu" if run_id in on_gpus else "cpu"]
        for name, slot_s in (named for part in parts for named in _named(part, by)):
            before = found.get(name, Used(name))
            cost = None if price is None or before.cost is None else before.cost + slot_s / 3600 * price
            idle_s, spent = before.idle_seconds + slot_s * idle.get(run_id, 0.0), before.energy_joules + slot_s * energy
            is_all = before.is_measured and is_measured
            found[name] = Used(name, before.slot_seconds + slot_s, idle_s, spent, is_all, cost)
    most_first = sorted(found.values(), key=lambda one: (-one.slot_seconds, one.name))
    return sorted(most_first, reverse=True) if by == "week" else most_first


def _named(one: Use, by: By) -> Iterator[tuple[str, float]]:
    """Yield what the use counts for, with its slot-seconds: one name, or each of its weeks of ISO 8601 in UTC."""
    if by != "week":
        yield getattr(one, by), one.slot_s
        return
    while one.start < one.end:
        end = min(one.end, MONDAY_S + WEEK_S * ((one.start - MONDAY_S) // WEEK_S + 1))
        yield f"{datetime.fromtimestamp(one.start, UTC):%G-W%V}", one._replace(end=end).slot_s
        one = one._replace(start=end)


def _idle_shares(runs: Sequence[Run], lives: Mapping[str, Sequence[Use]], now: datetime) -> dict[str, float]:
    """Return for each run the part of the time in which it held slots and trained nothing."""
    found = {}
    for run_id, time in times_shown(runs, now).items():
        if held := sum(one.end - one.start for one in lives[run_id]):
            found[run_id] = min(1.0, max(0.0, 1 - (time.productive_s + time.recomputed_s) / held))
    return found
