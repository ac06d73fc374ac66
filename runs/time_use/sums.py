"""Where the time of the runs of a project or a cluster went: ended runs have a row each, live ones are read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.db.models import F, Q, QuerySet, Sum

from runs.models import Run, RunTime
from runs.status import LIVE
from runs.time_use.reading import times_of
from runs.time_use.split import NAMES, TimeUse

WINDOW = timedelta(days=30)
LATELY = timedelta(hours=1)  # within which control writes the row of a run that has ended
PER_ROUND = 50
KEPT_S = 60
MAX_LIVE = 200  # whose time is read for a sum: the newest


def record_ended(now: datetime) -> None:
    """Write the rows of runs that have ended lately. One that was restarted since gets another."""
    ended = Run.objects.filter(ended_at__gte=now - LATELY, ended_at__isnull=False, local_id=None)
    is_old = Q(time=None) | ~Q(time__ended_at=F("ended_at"))
    runs = list(ended.filter(is_old).defer("spec", "estimate").order_by("ended_at", "pk")[:PER_ROUND])
    if not runs:
        return
    found = times_of(runs, now)
    for run in runs:
        assert run.ended_at is not None
        RunTime.objects.update_or_create(run=run, defaults={"ended_at": run.ended_at, **found[run.pk].by_name()})


def times_written(runs: Sequence[Run]) -> dict[str, TimeUse]:
    """Return where the time of each run went that has ended and has its row: one query, which a list can afford."""
    rows = {row.run_id: row for row in RunTime.objects.filter(run__in=[run.pk for run in runs if run.ended_at])}
    current = {run.pk: rows[run.pk] for run in runs if run.pk in rows and rows[run.pk].ended_at == run.ended_at}
    return {pk: TimeUse(**{name: getattr(row, name) for name in NAMES}) for pk, row in current.items()}


def times_shown(runs: Sequence[Run], now: datetime) -> dict[str, TimeUse]:
    """Return where the time of each run went: of an ended one what was written, else what is known now."""
    known = times_written(runs)
    return known | times_of([run for run in runs if run.pk not in known], now)


def time_of_all(runs: QuerySet[Run], now: datetime) -> TimeUse:
    """Return the sum over the runs that have an attempt and that live, or ended within ``WINDOW``.

    It is kept for KEPT_S: pages that are fetched again with every change of a node show it.
    """
    try:
        which = runs.order_by().values("pk").query  # without columns and joins the text is made in a tenth of the time
        question = f"{int(now.timestamp() // KEPT_S)} {which}"
    except EmptyResultSet:  # it selects none, whatever is stored: such a query has no text
        return TimeUse()
    key = f"time-of-all:{hashlib.sha256(question.encode()).hexdigest()}"
    kept: dict[str, float] | None = cache.get(key)
    if kept is None:
        kept = _sum(runs, now).by_name()
        cache.set(key, kept, KEPT_S)
    return TimeUse(**kept)


def _sum(runs: QuerySet[Run], now: datetime) -> TimeUse:
    ended = runs.filter(ended_at__gte=now - WINDOW, ended_at__isnull=False)
    sums = ended.order_by().aggregate(**{name: Sum(f"time__{name}") for name in NAMES})
    live = runs.filter(status__in=list(LIVE), ended_at=None, local_id=None, fence__gt=0).order_by("-created_at", "-pk")
    parts = times_of(list(live[:MAX_LIVE]), now).values()
    return TimeUse(**{name: (sums[name] or 0.0) + sum(getattr(one, name) for one in parts) for name in NAMES})
