"""Use of slots by project, person or cluster: what was held, what of it trained nothing, its energy and its price."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from django.db.models import Q

from runs.models import Cluster, Run
from runs.placing.usage import Use, uses
from runs.presenting.annex import WATTS, measured_joules, with_gpus
from runs.records.time_use.sums import times_shown
from runs.rights.access import Someone, visible_runs
from trainyard.grouping import grouped

By = Literal["project", "person", "cluster"]
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
    """Return what the runs that the person sees have used in the time, the most first."""
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
        one, slot_s = parts[0], sum(part.slot_s for part in parts)
        name = getattr(one, by)
        is_measured = meters.get(run_id, 0.0) > 0
        energy = meters[run_id] if is_measured else WATTS["gpu" if run_id in on_gpus else "cpu"]
        before, price = found.get(name, Used(name)), prices.get(one.cluster)
        cost = None if price is None or before.cost is None else before.cost + slot_s / 3600 * price
        idle_s, spent = before.idle_seconds + slot_s * idle.get(run_id, 0.0), before.energy_joules + slot_s * energy
        found[name] = Used(name, before.slot_seconds + slot_s, idle_s, spent, before.is_measured and is_measured, cost)
    return sorted(found.values(), key=lambda one: (-one.slot_seconds, one.name))


def _idle_shares(runs: Sequence[Run], lives: Mapping[str, Sequence[Use]], now: datetime) -> dict[str, float]:
    """Return for each run the part of the time in which it held slots and trained nothing."""
    found = {}
    for run_id, time in times_shown(runs, now).items():
        if held := sum(one.end - one.start for one in lives[run_id]):
            found[run_id] = min(1.0, max(0.0, 1 - (time.productive_s + time.recomputed_s) / held))
    return found
