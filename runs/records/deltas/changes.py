"""What was committed after a cursor, read back from the store: for a client that missed some of it."""

from __future__ import annotations

from operator import itemgetter

from django.db.models import Max, Min, Sum

from runs.records.deltas.delta import MAX_LINES, MAX_POINTS, Delta, delta
from runs.records.logs.changes import lines_since, num_lines_since
from runs.records.metrics.models import Block, Segment, Series, Telemetry
from runs.records.metrics.snapshot import snapshot
from runs.records.points.read import decode_block, decoded
from runs.records.points.store import Piece


def delta_since(run_id: str, cursor: int) -> Delta:
    """Return everything committed after ``cursor``; a refetch where that is too much, where batches were compacted
    since (so single batches are no longer known), or the cursor is not ours."""
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
