"""Writing points as segments and blocks, with the running summary of each series; log lines: see log_writing.

Called inside the transaction of a batch; nothing here opens one, and nothing here knows of frames or watermarks
(that is runs.ingest.commit).
"""

from __future__ import annotations

from collections.abc import Iterable

from runs.logs.writing import Lines, write_lines
from runs.metrics import bulk
from runs.metrics.codec import Columns
from runs.metrics.models import Block
from runs.points import summaries
from runs.points.blocks import encode_block
from runs.points.segments import Stretch, write_segments
from runs.points.summaries import SeriesTable, Summary
from runs.points.tables import Head, Piece, Sheet

__all__ = ["Lines", "Piece", "SeriesTable", "write_lines", "write_points", "write_sheets"]

DIRECT = 2048  # so many points of a series in one batch become a segment at once


def write_sheets(table: SeriesTable, *, attempt: int, cursor: int, sheets: Iterable[Sheet]) -> list[Sheet]:
    """Store sheets, large ones as segments and the small ones together as a block, and fold them into their series'
    summaries. Returns what was stored: not the series that would be too many for the run."""
    sheets = list(sheets)
    table.find(sheet.head for sheet in sheets)
    kept: list[tuple[list[int], Sheet]] = []
    touched: dict[int, Summary] = {}
    for sheet in sheets:
        rows = [table.rows.get(key) for key in sheet.head.keys]
        found = [row for row in rows if row is not None]
        if not found:
            continue
        if len(found) < len(rows):
            sheet = sheet.only([place for place, row in enumerate(rows) if row is not None])
        summaries.fold(found, attempt, sheet)
        touched.update((row.pk, row) for row in found)
        kept.append(([row.pk for row in found], sheet))
    summaries.save(touched.values())
    _write(table.run_id, attempt, cursor, kept)
    return [sheet for _, sheet in kept]


def _write(run_id: str, attempt: int, cursor: int, kept: list[tuple[list[int], Sheet]]) -> None:
    small = [(ids, sheet) for ids, sheet in kept if sheet.steps.size < DIRECT]
    large = [
        Stretch(pk, cursor, Columns(sheet.steps, sheet.times, values))
        for ids, sheet in kept
        if sheet.steps.size >= DIRECT
        for pk, values in zip(ids, sheet.values, strict=True)
    ]
    if small:
        count = sum(sheet.num_points for _, sheet in small)
        row = (run_id, attempt, cursor, count, encode_block(small))
        bulk.insert(Block, ("run_id", "attempt", "cursor", "count", "data"), [row])
    if large:
        write_segments(run_id, attempt, large)


def write_points(run_id: str, *, attempt: int, cursor: int, pieces: Iterable[Piece]) -> None:
    """Store points of single series."""
    sheets = [
        Sheet(
            part.producer, part.sequence, Head((part.name,), part.labels), *part.columns[:2], part.columns.values[None]
        )
        for part in pieces
        if part.columns.size
    ]
    write_sheets(SeriesTable(run_id), attempt=attempt, cursor=cursor, sheets=sheets)
