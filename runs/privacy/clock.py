"""Work on data of people and projects beside requests, in a thread of control's own: it may take its time.

Exports that wait are made at once. Once an hour what projects keep no longer is removed, what they store is measured,
code that nothing needs and old exports go, whoever was erased and came back is erased again, and controls are measured.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import structlog
from django.db import transaction

from runs.models import CodeBundle, Job, PersonalExport, Project, Run, RunCode, Sweep
from runs.privacy import compliance, erasure, exporting, retention, storage
from runs.records.files.paths import bundles_folder, bundles_locked
from runs.serving.clock import Clock
from runs.serving.transport import redis
from trainyard.contract import seals

# Code that people sent and that nothing needs any more: it goes, so that no quota stays full of it.

KEEP = timedelta(days=1)  # between the upload and the launch
CLOCKS_DIFFER = timedelta(hours=1)  # at most, of the servers that write runs
EVER = datetime(2000, 1, 1, tzinfo=UTC)


def remove_rows(project: Project, now: datetime) -> int:
    """Remove the project's bundles that came more than KEEP ago and that no run, job or sweep of it names. Returns how
    many."""
    started = datetime.now(UTC)
    old = project.bundles.filter(created_at__lt=now - KEEP)
    unused = set(old.values_list("sha256", flat=True))
    if unused:
        unused -= _needed_in(project, EVER)  # reads every run: no row is locked meanwhile
    if not unused:
        return 0
    with transaction.atomic():  # a launch locks its bundle too, so that none is queued whose code goes
        locked = set(old.select_for_update().filter(sha256__in=unused).values_list("pk", "sha256"))
        needed = _needed_in(project, started - CLOCKS_DIFFER)
        number, _ = CodeBundle.objects.filter(pk__in=[pk for pk, sha256 in locked if sha256 not in needed]).delete()
    log.info("code.unused_removed", project=project.name, number=number)
    return number


def remove_files() -> None:
    """Remove the files that no project has a row of."""
    with bundles_locked():
        kept = set(CodeBundle.objects.values_list("sha256", flat=True))
        for path in bundles_folder().glob("*/*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)


def _needed_in(project: Project, since: datetime) -> set[str]:
    """Return the digests that jobs and sweeps of the project name, and its runs since that time."""
    runs = Run.objects.filter(project=project, created_at__gte=since).order_by()
    return {
        *runs.values_list("spec__task__code__sha256", flat=True),
        *RunCode.objects.filter(run__in=runs).values_list("sha256", flat=True),
        *Job.objects.filter(project=project).values_list("spec__task__code__sha256", flat=True),
        *Sweep.objects.filter(project=project).values_list("base_spec__task__code__sha256", flat=True),
    }


log = structlog.get_logger(__name__)

EVERY_S = 2.0
TEND_EVERY_S = 3600.0
LOCK_S = 600
TENDED_KEY = f"{seals.PREFIX}:control:privacy-tended"


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
        _guarded(partial(remove_rows, project, now), project=project.name)
        _guarded(partial(storage.measure, project, now), project=project.name)
    _guarded(remove_files)
    _guarded(partial(compliance.tend, now))


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
