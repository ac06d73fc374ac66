"""How much a project keeps, and for how long, by kind. A preview shows what would go; it goes in rounds."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from runs.models import Dependency, GoneRun, HeldSlot, Project, RemovedData, Run, StoredData
from runs.models.runs import RunQuerySet
from runs.privacy.storage import REMOVABLE, Amount, DataKind, code_of, days_kept, of_runs, total_of
from runs.records.files import paths as places
from runs.records.files.paths import output_folder
from runs.records.metrics.erase import delete_run_data, remove_checkpoint_rows, remove_logs, remove_media, remove_points
from runs.values.refused import Refused
from runs.values.status import FINAL, Status
from trainyard.formats.words import counted

# Deleting runs: on request, or some time after they were archived.


def forget(run: Run) -> None:
    """Delete the run with its history, points, logs and files. What is large goes from the disk a slice at a time, and
    checkpoints when their nodes ask next. Raises Refused for files that cannot be deleted: then the run stays."""
    run_id = run.pk
    _remove_folder(places.run_folder(run_id))
    with transaction.atomic():
        if not run.is_local:
            GoneRun.objects.get_or_create(pk=run_id)
        if run.status == Status.SUCCEEDED:
            Dependency.objects.filter(other=run).delete()  # what waits for its success waits no more
        run.delete()
    delete_run_data(run_id)
    shutil.rmtree(places.run_folder(run_id), ignore_errors=True)  # what came meanwhile


def forget_old(now: datetime, shard: int) -> int:
    """Forget the shard's runs that were archived KEEP_ARCHIVED_DAYS ago, and return how many were due. 0 days: none.

    A run that still holds a slot waits until its node confirms that nothing of it is left there.
    """
    if not settings.KEEP_ARCHIVED_DAYS:
        return 0
    before = now - timedelta(days=settings.KEEP_ARCHIVED_DAYS)
    runs = Run.objects.filter(shard=shard, archived_at__lt=before, status__in=list(FINAL))
    old = list(runs.exclude(pk__in=HeldSlot.objects.values("placement__attempt__run")))
    for run in old:
        log.info("retention.forgets", run=run.pk, name=run.name, archived_at=str(run.archived_at))
        with suppress(Refused):  # it is logged, and the next round tries again; so below
            forget(run)
    return len(old)


log = structlog.get_logger(__name__)

RUNS_AT_ONCE = 100  # of a kind in a round


class Removal(NamedTuple):
    """Removal of one kind, as it would be now."""

    kind: DataKind
    days: int
    num_runs: int
    bytes: int


def preview(project: Project, days: dict[DataKind, int | None], now: datetime) -> list[Removal]:
    """Return what the project would lose at once if it kept each kind for so many days."""
    found = []
    for kind in REMOVABLE:
        if (number := days.get(kind)) is None:
            continue
        runs = list(due(project, kind, number, now).values_list("pk", flat=True))
        found.append(Removal(kind, number, len(runs), _bytes(kind, runs)))
    return found


def apply(project: Project, now: datetime) -> int:
    """Remove what the project keeps no longer, of some runs. Returns of how many."""
    num = 0
    for kind in REMOVABLE:
        days = days_kept(project, kind)
        if days is None:
            continue
        for run in due(project, kind, days, now)[:RUNS_AT_ONCE]:
            with suppress(Refused):
                remove(run, kind, days, now)
                num += 1
    return num


def due(project: Project, kind: DataKind, days: int, now: datetime) -> RunQuerySet:
    """The runs whose data of the kind are too old: that ended so long ago, hold no slot, and of which this kind was not
    removed since. A checkpoint that a run which goes on came from stays."""
    ended = Run.objects.filter(project=project, status__in=list(FINAL), ended_at__lt=now - timedelta(days=days))
    ended = ended.exclude(pk__in=HeldSlot.objects.values("placement__attempt__run"))
    removed = RemovedData.objects.filter(kind=kind, at__gte=F("run__ended_at"))
    ended = ended.exclude(pk__in=removed.values("run"))
    if kind in (DataKind.CHECKPOINTS, DataKind.RUNS):
        living = Run.objects.exclude(status__in=list(FINAL)).exclude(parent=None)
        ended = ended.exclude(pk__in=living.values("parent"))
    return ended.order_by("ended_at")


def remove(run: Run, kind: DataKind, days: int, now: datetime) -> None:
    log.info("retention.removes", run=run.pk, kind=kind, days=days)
    if kind == DataKind.RUNS:
        forget(run)
        return
    _REMOVERS[kind](run.pk)
    RemovedData.objects.update_or_create(run=run, kind=kind, defaults={"at": now})
    project = run.project.name
    what = "output files" if kind == DataKind.OUTPUTS else kind
    words = f"Its {what} were removed: project {project} keeps them for {counted(days, 'day')} after a run's end."
    run.record("retention", words)


def runs_without_checkpoints() -> Q:
    """Return the rows of RemovedData by which a run's checkpoints may go from its nodes, unless it was
    started again."""
    return Q(kind=DataKind.CHECKPOINTS, run__status__in=list(FINAL), at__gte=F("run__ended_at"))


def _bytes(kind: DataKind, runs: list[str]) -> int:
    kinds = REMOVABLE if kind == DataKind.RUNS else (kind,)
    return sum((of_runs(one, runs) for one in kinds), Amount()).bytes


def _remove_folder(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        if folder.is_symlink() or folder.exists():
            log.warning("retention.not_removed", folder=str(folder), error=str(error))
            name, why = folder.relative_to(places.run_folder(".")), error.strerror or error
            raise Refused("not-deleted", f"Files of run {name} cannot be deleted: {why}.") from error


_REMOVERS: dict[DataKind, Callable[[str], object]] = {
    DataKind.LOGS: remove_logs, DataKind.METRICS: remove_points, DataKind.MEDIA: remove_media,
    DataKind.CHECKPOINTS: remove_checkpoint_rows,
    DataKind.OUTPUTS: lambda run_id: _remove_folder(output_folder(run_id)),
}  # fmt: skip


WARN_AT = 0.8
UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")


class Usage(NamedTuple):
    used_bytes: int
    quota_bytes: int | None
    sentence: str  # from 80 % on; empty below, and without a quota

    @property
    def percent(self) -> int | None:
        return None if not self.quota_bytes else min(round(100 * self.used_bytes / self.quota_bytes), 999)

    @property
    def is_full(self) -> bool:
        return bool(self.quota_bytes) and self.used_bytes >= (self.quota_bytes or 0)


def usage_of(project: Project) -> Usage:
    """Return what the project used when it was measured last. Its code, which anybody sends at any rate, is counted
    now."""
    rest = StoredData.objects.filter(project=project).exclude(kind=DataKind.CODE)
    return usage(project.name, total_of(rest) + code_of(project).bytes, project.quota_bytes)


def usage(name: str, used: int, quota: int | None) -> Usage:
    if not quota or used < WARN_AT * quota:
        return Usage(used, quota, "")
    of_quota = f"Project {name} stores {in_words(used)} of the {in_words(quota)} that it may"
    if used >= quota:
        return Usage(used, quota, f"{of_quota}: no run starts until something is deleted.")
    return Usage(used, quota, f"{of_quota} ({round(100 * used / quota)} %). When all is used no run starts.")


def require_room(project: Project, code_bytes: int = 0) -> None:
    """Raise Refused where the project has used all of its quota, or would with so much code more. What runs goes on,
    and its files are taken: a training of days is not lost for a number."""
    if not project.quota_bytes:
        return
    found = usage_of(project)
    if found.is_full:
        raise Refused("quota-used", found.sentence)
    if found.used_bytes + code_bytes > project.quota_bytes:
        of_quota = f"stores {in_words(found.used_bytes)} of the {in_words(project.quota_bytes)} that it may"
        raise Refused("quota-used", f"Project {project.name} {of_quota}, and this code has {in_words(code_bytes)}.")


def in_words(number: int) -> str:
    size, unit = float(number), UNITS[0]
    for unit in UNITS:
        if size < 1000 or unit == UNITS[-1]:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == UNITS[0] or size >= 100 else f"{size:.1f} {unit}"
