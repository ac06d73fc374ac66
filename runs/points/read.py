"""Everything that pages, the API and the reconciler read of what came back from the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from django.db.models import Max, Min, Sum

from runs.deltas.delta import MAX_LINES, MAX_POINTS, Delta, delta
from runs.logs.changes import lines_since, num_lines_since
from runs.logs.reading import BadCursor, log_text, logs
from runs.metrics.erase import delete_run_data
from runs.metrics.models import Block, Producer, Segment, Series, Telemetry
from runs.metrics.snapshot import snapshot
from runs.points.axes import decoded
from runs.points.blocks import decode_block
from runs.points.charts.series import last_of, series_data, series_list, series_lists, sparklines, steady_medians
from runs.points.store import Piece

__all__ = [
    "BadCursor",
    "cursor_of",
    "delete_run_data",
    "delta_since",
    "gaps",
    "is_complete",
    "log_text",
    "logs",
    "points_since",
    "series_data",
    "series_list",
    "series_lists",
    "sparklines",
    "steady_medians",
    "summaries",
    "telemetry",
    "watermarks",
]


def telemetry(run_ids: Sequence[str]) -> dict[str, Telemetry]:
    """Return what is known of each run; a run that never reported has an empty, unsaved row."""
    known = Telemetry.objects.in_bulk(list(run_ids))
    return {run_id: known.get(run_id) or Telemetry(run_id=run_id) for run_id in run_ids}


def cursor_of(run_id: str) -> int:
    """Return the number of batches that were committed for the run."""
    return Telemetry.objects.filter(run_id=run_id).values_list("cursor", flat=True).first() or 0


def summaries(run_ids: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return {run: {series name: {last, min, max, count}}}. Series that differ in labels only are one here: the
    extremes and the count over all, the last of the one without labels, else of the one that spoke last."""
    found: dict[str, dict[str, dict[str, Any]]] = {run_id: {} for run_id in run_ids}
    rows = Series.objects.filter(run_id__in=list(run_ids)).order_by("last_attempt", "last_time", "id")
    for row in sorted(rows, key=lambda row: row.labels_key == "{}"):
        summary = found[row.run_id].setdefault(row.name, {"last": None, "min": None, "max": None, "count": 0})
        summary["last"] = last_of(row)
        summary["min"] = _of_both(min, summary["min"], row.min)
        summary["max"] = _of_both(max, summary["max"], row.max)
        summary["count"] += row.count
    return found


def _of_both(choose: Any, one: float | None, other: float | None) -> float | None:
    numbers = [number for number in (one, other) if number is not None]
    return choose(numbers) if numbers else None


def watermarks(run_id: str) -> dict[str, int]:
    """Return {producer: longest committed prefix} of every producer of the run."""
    return dict(Producer.objects.filter(run_id=run_id).values_list("producer", "watermark"))


def gaps(run_id: str) -> list[str]:
    """Return the producers whose frames were refused because some before them are missing."""
    return list(Producer.objects.filter(run_id=run_id, has_gap=True).values_list("producer", flat=True))


def is_complete(run_id: str, producers: dict[str, int]) -> bool:
    """Whether everything arrived of producers that say they wrote so many frames."""
    stored = watermarks(run_id)
    return all(stored.get(producer, 0) >= last for producer, last in producers.items())


def delta_since(run_id: str, cursor: int) -> Delta:
    """Return everything committed after ``cursor``; a refetch where that is too much, where batches were compacted
    since (then no single one can be told any more), or the cursor is not ours."""
    with snapshot():
        known = Telemetry.objects.filter(run_id=run_id).first() or Telemetry(run_id=run_id)
        now = known.cursor
        if cursor > now:  # the store was emptied, or the client made it up
            return Delta(now, now, refetch=True)
        if cursor == now:
            return Delta(now, now)
        if cursor < known.compacted_cursor:
            return Delta(cursor, now, refetch=True)
        return _change(run_id, cursor, now)


def _change(run_id: str, cursor: int, now: int) -> Delta:
    blocks = Block.objects.filter(run_id=run_id, cursor__gt=cursor)
    segments = Segment.objects.filter(series__run_id=run_id, is_sealed=False, cursor__gt=cursor)
    direct = segments.aggregate(total=Sum("count"), first=Min("first_step"), last=Max("last_step"))
    num_points = (direct["total"] or 0) + (blocks.aggregate(total=Sum("count"))["total"] or 0)
    if num_points > MAX_POINTS or num_lines_since(run_id, cursor, at_most=MAX_LINES) > MAX_LINES:
        steps = [direct["first"], direct["last"]] if direct["total"] and not blocks.exists() else None
        return Delta(cursor, now, refetch=True, steps=steps)
    parts = [(row.cursor, row.attempt, row.series_id, columns) for row, columns in decoded(segments.order_by("id"))]
    for block in blocks.order_by("id"):
        parts += [(block.cursor, block.attempt, pk, columns) for pk, columns in decode_block(bytes(block.data))]
    names = Series.objects.in_bulk({series_id for _, _, series_id, _ in parts})
    pieces = [
        (attempt, Piece("", 0, names[series_id].name, names[series_id].labels, columns))
        for _, attempt, series_id, columns in sorted(parts, key=itemgetter(0))
    ]
    return delta(cursor, now, pieces, lines_since(run_id, cursor))


def points_since(run_id: str, cursor: int) -> list[dict[str, Any]] | None:
    """Return the points committed after ``cursor`` as the series of a message; None when they are too many."""
    change = delta_since(run_id, cursor)
    return None if change.refetch else change.series
