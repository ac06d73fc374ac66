"""What is done about data of people and projects beside requests, in a thread of control's own: it may take its time.

Exports that wait are made at once. Once an hour what projects keep no longer is removed, what they store is measured,
code that nothing needs and old exports go, and whoever was erased and came back is erased again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from runs.models import PersonalExport, Project
from runs.privacy import erasure, exporting, retention, storage, unused_code
from runs.serving.clock import Clock
from runs.serving.transport import redis
from trainyard.contract import keys

log = structlog.get_logger(__name__)

EVERY_S = 2.0
TEND_EVERY_S = 3600.0
LOCK_S = 600
TENDED_KEY = f"{keys.PREFIX}:control:privacy-tended"


def make_exports(now: datetime) -> int:
    """Make the exports that wait, and return how many there were."""
    waiting = list(PersonalExport.objects.filter(state="waiting").order_by("created_at").values_list("pk", flat=True))
    for export_id in waiting:
        _guarded(partial(exporting.make, export_id, now), export=export_id)
    return len(waiting)


def tend(now: datetime) -> None:
    """Do what is due once an hour. One project that fails keeps no other waiting."""
    _guarded(erasure.catch_up)
    _guarded(partial(exporting.forget_old, now))
    for project in Project.objects.all():
        _guarded(partial(retention.apply, project, now), project=project.name)
        _guarded(partial(unused_code.remove_rows, project, now), project=project.name)
        _guarded(partial(storage.measure, project, now), project=project.name)
    _guarded(unused_code.remove_files)


def round_once(now: datetime) -> None:
    make_exports(now)
    if redis().set(TENDED_KEY, now.timestamp(), nx=True, px=int(TEND_EVERY_S * 1000)):
        tend(now)


def _guarded(part: Callable[[], object], **about: Any) -> None:
    try:
        part()
    except Exception:  # a bug, or a disk that is full: the log says which, and the next round tries again
        log.exception("privacy.part_failed", **about)


def privacy_clock() -> Clock:
    return Clock("privacy", round_once, every_s=EVERY_S, lock_s=LOCK_S)
