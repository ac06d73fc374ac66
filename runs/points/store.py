"""Writing points as segments and blocks, with the running summary of each series; log lines: see log_writing.

Called inside the transaction of a batch. Frames and watermarks are the business of runs.ingest.commit.
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
from runs.points.tables import Piece, PointMatrix, SeriesGroup

__all__ = ["Lines", "Piece", "SeriesTable", "write_lines", "write_matrices", "write_points"]

DIRECT = 2048  # so many points of a series in one batch become a segment at once


def write_matrices(
    table: SeriesTable, *, attempt: int, cursor: int, matrices: Iterable[PointMatrix]
) -> list[PointMatrix]:
    """Store matrices, large ones as segments and the small ones together as a block, and fold them into their series'
    summaries. Returns what was stored: not the series that would be too many for the run."""
    matrices = list(matrices)
    table.find(matrix.head for matrix in matrices)
    kept: list[tuple[list[int], PointMatrix]] = []
    touched: dict[int, Summary] = {}
    for matrix in matrices:
        rows = [table.rows.get(key) for key in matrix.head.keys]
        found = [row for row in rows if row is not None]
        if not found:
            continue
        if len(found) < len(rows):
            matrix = matrix.only([place for place, row in enumerate(rows) if row is not None])
        summaries.fold(found, attempt, matrix)
        touched.update((row.pk, row) for row in found)
        kept.append(([row.pk for row in found], matrix))
    summaries.save(touched.values())
    _write(table.run_id, attempt, cursor, kept)
    return [matrix for _, matrix in kept]


def _write(run_id: str, attempt: int, cursor: int, kept: list[tuple[list[int], PointMatrix]]) -> None:
    small = [(ids, matrix) for ids, matrix in kept if matrix.steps.size < DIRECT]
    large = [
        Stretch(pk, cursor, Columns(matrix.steps, matrix.times, values))
        for ids, matrix in kept
        if matrix.steps.size >= DIRECT
        for pk, values in zip(ids, matrix.values, strict=True)
    ]
    if small:
        count = sum(matrix.num_points for _, matrix in small)
        row = (run_id, attempt, cursor, count, encode_block(small))
        bulk.insert(Block, ("run_id", "attempt", "cursor", "count", "data"), [row])
    if large:
        write_segments(run_id, attempt, large)


def write_points(run_id: str, *, attempt: int, cursor: int, pieces: Iterable[Piece]) -> None:
    """Store points of single series."""
    matrices = [
        PointMatrix(
            part.producer,
            part.sequence,
            SeriesGroup((part.name,), part.labels),
            *part.columns[:2],
            part.columns.values[None],
        )
        for part in pieces
        if part.columns.size
    ]
    write_matrices(SeriesTable(run_id), attempt=attempt, cursor=cursor, matrices=matrices)
