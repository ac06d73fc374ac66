"""Points and log lines in the store, as ingest would have written them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from django.utils import timezone

from runs.models import Run
from runs.records.metrics.codec import Columns, numbers
from runs.records.metrics.models import Telemetry
from runs.records.points import read, store
from runs.records.points.tables import PointMatrix, SeriesGroup

START_S = 1_700_000_000.0


def write_points(run_id: str, *, attempt: int, cursor: int, pieces: Iterable[store.SeriesPiece]) -> None:
    """Store points of single series."""
    matrices = []
    for part in pieces:
        steps, times, values = part.columns
        if steps.size:
            head = SeriesGroup((part.name,), part.labels)
            matrices.append(PointMatrix(part.producer, part.sequence, head, steps, times, values[None]))
    store.write_matrices(store.SeriesTable(run_id), attempt=attempt, cursor=cursor, matrices=matrices)


def write_series(
    run: Run,
    name: str,
    values: Sequence[float],
    *,
    labels: dict[str, str] | None = None,
    attempt: int = 1,
    first: int = 1,
) -> None:
    """One value a step from ``first`` on, a second apart."""
    steps = np.arange(first, first + len(values), dtype=np.int64)
    columns = Columns(steps, START_S + steps.astype(np.float64), np.array(values, np.float64))
    write_points(
        run.pk, attempt=attempt, cursor=1, pieces=[store.SeriesPiece(f"{attempt:032x}", 1, name, labels or {}, columns)]
    )
    known, _ = Telemetry.objects.get_or_create(run_id=run.pk)
    known.cursor, known.step, known.step_at = 1, int(steps[-1]), timezone.now().timestamp()
    known.median_step_s, known.last_record_at = 0.5, timezone.now()
    known.record_minute = int(known.last_record_at.timestamp() // 60)
    known.save()


def series_data(
    run_id: str,
    names: Sequence[str],
    labels: dict[str, str] | None = None,
    x: Literal["step", "time"] = "step",
    start: float | None = None,
    end: float | None = None,
    points: int = 1500,
) -> Any:
    """Return the cursor and the points of the named series between start and end, with words for what is not finite."""
    cursors, found = read.curves({run_id: (start, end)}, names, labels, x, points)
    return {"cursor": cursors[run_id], "series": [_document(curve) for curve in found]}


def _document(curve: read.Curve) -> dict[str, Any]:
    head = {"name": curve.name, "labels": curve.labels, "attempt": curve.attempt, "kind": curve.kind}
    whole = ("step", "time", "count")
    columns = curve.columns.items()
    return head | {name: column.tolist() if name in whole else numbers(column) for name, column in columns}
