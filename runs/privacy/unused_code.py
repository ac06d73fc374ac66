"""Code that people sent and that nothing needs any more: it goes, so that no quota stays full of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog
from django.db import transaction

from runs.files.paths import bundles_folder, bundles_locked
from runs.models import CodeBundle, Job, Project, Run, RunCode, Sweep

log = structlog.get_logger(__name__)

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
