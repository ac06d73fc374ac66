"""Kinds of data of a project, where their bytes lie, and how many they are: measured now and then, kept in rows."""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, F, Sum, TextField
from django.db.models.functions import Cast, Length

from runs.models import CodeBundle, Dataset, Event, Project, Run, StoredData
from runs.records.files.paths import output_folder
from runs.records.media.kinds import ALL_OF
from runs.records.metrics.bulk import in_parts
from runs.records.metrics.models import Axis, Block, Checkpoint, Level, LogChunk, Media, Segment
from trainyard.grouping import grouped

SERVER = "this server"


class Amount(NamedTuple):
    bytes: int = 0
    number: int = 0

    def __add__(self, other: object) -> "Amount":
        assert isinstance(other, Amount)
        return Amount(self.bytes + other.bytes, self.number + other.number)


class Where(NamedTuple):
    kind: "DataKind"
    place: str
    region: str  # empty: not known


def measure(project: Project, now: datetime) -> None:
    """Measure all of the project and replace what was measured before."""
    found = dict(amounts(project))
    with transaction.atomic():
        StoredData.objects.filter(project=project).delete()
        StoredData.objects.bulk_create(
            StoredData(
                project=project, kind=where.kind, place=where.place, region=where.region, bytes=amount.bytes,
                number=amount.number, measured_at=now,
            )
            for where, amount in found.items()
            if amount.number
        )  # fmt: skip


def amounts(project: Project) -> Iterator[tuple[Where, Amount]]:
    """Yield what lies where, each place of a kind once."""
    runs = list(Run.objects.filter(project=project).order_by().values_list("pk", flat=True))
    for kind in (DataKind.RUNS, DataKind.METRICS, DataKind.LOGS, DataKind.MEDIA, DataKind.OUTPUTS):
        yield Where(kind, SERVER, settings.SERVER_REGION), of_runs(kind, runs)
    yield Where(DataKind.CODE, SERVER, settings.SERVER_REGION), code_of(project)
    yield from _checkpoints(project, runs)
    yield from _datasets(project)


def code_of(project: Project) -> Amount:
    return _sum(CodeBundle.objects.filter(project=project), "size_bytes")


def of_runs(kind: "DataKind", runs: Sequence[str]) -> Amount:
    if kind == DataKind.OUTPUTS:
        return sum((folder_size(output_folder(run_id)) for run_id in runs), Amount())
    tables = (table for some in in_parts(runs) for table in _tables(kind, some))
    return sum((_sum(rows, size) for rows, size in tables), Amount())


def folder_size(folder: Path) -> Amount:
    """Return the bytes of the files below the folder; a file with two names counts once."""
    seen: dict[tuple[int, int], int] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                stat = (Path(place) / name).lstat()
            except FileNotFoundError:
                continue
            seen[stat.st_dev, stat.st_ino] = stat.st_size
    return Amount(sum(seen.values()), len(seen))


def _tables(kind: "DataKind", runs: Collection[str]) -> list[tuple[models.QuerySet[Any], Any]]:
    """The rows that hold the kind, and what to add up of each."""
    if kind == DataKind.RUNS:
        own = Length(Cast("spec", TextField())) + Length(Cast("config", TextField())) + Length("notes")
        return [(Run.objects.filter(pk__in=runs), own), (Event.objects.filter(run__in=runs), Length("sentence"))]
    if kind == DataKind.METRICS:
        data = Length("data")
        return [
            (Segment.objects.filter(series__run_id__in=runs), data),
            (Level.objects.filter(series__run_id__in=runs), data),
            (Axis.objects.filter(run_id__in=runs), data),
            (Block.objects.filter(run_id__in=runs), data),
        ]
    if kind == DataKind.LOGS:
        return [(LogChunk.objects.filter(run_id__in=runs), Length("text") + Length("columns"))]
    if kind == DataKind.MEDIA:
        return [(Media.objects.filter(run_id__in=runs), Length("data"))]
    if kind == DataKind.CHECKPOINTS:
        return [(Checkpoint.objects.filter(run_id__in=runs, deleted_at=None), F("bytes"))]
    raise ValueError(f"{kind} is not of runs")


def _sum(rows: models.QuerySet[Any], size: Any) -> Amount:
    found = rows.order_by().aggregate(bytes=Sum(size), number=Count("pk"))
    return Amount(found["bytes"] or 0, found["number"])


def _checkpoints(project: Project, runs: Sequence[str]) -> Iterator[tuple[Where, Amount]]:
    """Yield checkpoints by cluster: they lie on the disks of the nodes that trained, or on one that these share."""
    placed = Run.objects.filter(project=project, cluster__isnull=False)
    rows = placed.values_list("pk", "cluster__name", "cluster__region")
    for (name, region), of_cluster in grouped(((name, region), run_id) for run_id, name, region in rows).items():
        yield Where(DataKind.CHECKPOINTS, _of_cluster(name), region), of_runs(DataKind.CHECKPOINTS, of_cluster)


def _datasets(project: Project) -> Iterator[tuple[Where, Amount]]:
    found: dict[Where, Amount] = defaultdict(Amount)
    for one in Dataset.objects.filter(project=project).select_related("cluster"):
        parts = urlsplit(one.location)
        if parts.scheme and parts.netloc:  # a store of somebody else's, who alone knows where it is
            where = Where(DataKind.DATASETS, f"{parts.scheme}://{parts.hostname or ''}", "")
        else:
            where = Where(DataKind.DATASETS, _of_cluster(one.cluster.name), one.cluster.region)
        found[where] += Amount(one.size_bytes or 0, 1)
    yield from found.items()


def _of_cluster(name: str) -> str:
    return f"nodes of cluster {name}"


def total_of(rows: Iterable[StoredData]) -> int:
    """Return the bytes that count for the quota: all but datasets, which nobody put there through Trainyard."""
    return sum(row.bytes for row in rows if row.kind != DataKind.DATASETS)


# The kinds of data that a project has: what is measured, kept for so long, and shown where it lies.


class DataKind(StrEnum):
    RUNS = "runs"
    METRICS = "metrics"
    LOGS = "logs"
    MEDIA = "media"
    OUTPUTS = "outputs"
    CHECKPOINTS = "checkpoints"
    CODE = "code"
    DATASETS = "datasets"


WORDS = {
    DataKind.RUNS: "Runs: specs, configurations, notes and history", DataKind.METRICS: "Metrics", DataKind.LOGS: "Logs",
    DataKind.MEDIA: ALL_OF.capitalize(), DataKind.OUTPUTS: "Output files", DataKind.CHECKPOINTS: "Checkpoints",
    DataKind.CODE: "Code that runs were launched with", DataKind.DATASETS: "Datasets by name",
}  # fmt: skip
# Data that retention removes, some days after a run has ended. Without the run itself nothing else of it is left.
REMOVABLE = (DataKind.LOGS, DataKind.METRICS, DataKind.MEDIA, DataKind.OUTPUTS, DataKind.CHECKPOINTS, DataKind.RUNS)


def days_kept(project: Project, kind: DataKind) -> int | None:
    """Return for how many days after the end of a run the project keeps the kind; None: for ever."""
    found: int | None = getattr(project, f"keep_{kind}_days")
    return found
