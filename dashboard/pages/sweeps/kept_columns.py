"""The columns of a sweep as JSON. Of a sweep in which nothing runs they are kept in this process, until a trial or a
run of it changes: ten thousand trials take a quarter of a second to read."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from threading import Lock
from typing import NamedTuple

import msgspec
from django.db.models import Count, Max, Q

from dashboard.pages.sweeps.columns import columns
from dashboard.pages.sweeps.occupations import occupations
from runs.models import Run, Sweep
from runs.sweeps.reading import timed_points

MOST = 16  # sweeps; one of ten thousand trials has a third of a megabyte


class Version(NamedTuple):
    """What is another as soon as something of the sweep is."""

    cursor: int  # counts changes of the sweep and its trials
    changed_at: datetime | None  # the last change of any of its runs
    num_runs: int


_lock = Lock()
_kept: OrderedDict[str, tuple[Version, bytes]] = OrderedDict()


def columns_json(sweep: Sweep, now: datetime) -> bytes:
    version, num_live = _version_of(sweep)  # read first: what changes meanwhile makes it an older one
    with _lock:
        before = _kept.get(sweep.pk)
    if before is not None and before[0] == version and not num_live:
        return before[1]
    bars = occupations(sweep, now)
    found = msgspec.json.encode(columns(sweep.parsed, sweep.base_spec, timed_points(sweep, now), bars))
    if sweep.ended_at is not None and not num_live and all(one.end < now.timestamp() for one in bars):
        _keep(sweep.pk, version, found)
    return found


def _version_of(sweep: Sweep) -> tuple[Version, int]:
    """Return the version, and how many of the sweep's runs go on: what is drawn of them grows with the time."""
    of_runs = Run.objects.filter(trial__sweep=sweep).order_by().aggregate(
        changed=Max("changed_at"), num=Count("pk"), live=Count("pk", filter=Q(ended_at=None))
    )  # fmt: skip
    return Version(sweep.cursor, of_runs["changed"], of_runs["num"]), of_runs["live"]


def _keep(sweep_id: str, version: Version, found: bytes) -> None:
    with _lock:
        _kept[sweep_id] = version, found
        _kept.move_to_end(sweep_id)
        while len(_kept) > MOST:
            _kept.popitem(last=False)
