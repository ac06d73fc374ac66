"""Writing points and log lines as segments and chunks, with the running summary of each series.

Called inside the transaction of a batch; nothing here opens one, and nothing here knows of frames or watermarks
(that is runs.ingest.commit).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from runs.metrics.codec import Columns, encode, encode_lines, joined
from runs.metrics.models import LogChunk, Segment, Series

LINES_PER_CHUNK = 1000
POINTS_PER_SEGMENT = 16_384  # who reads a window decodes whole segments
NAMES_PER_QUERY = 500  # SQLite bounds the variables of a statement
SUMMARY = ("count", "first_step", "last_step", "last_time", "last", "last_text", "last_attempt", "min", "max")


@dataclass(frozen=True)
class Piece:
    """The points of one series in one frame, or in several of one producer, merged (sequence: the first)."""

    producer: str
    sequence: int
    name: str
    labels: dict[str, str]
    columns: Columns

    @property
    def key(self) -> tuple[str, str]:
        return self.name, labels_key(self.labels)


@dataclass(frozen=True)
class Lines:
    """Consecutive lines (Unix seconds, text) of one rank and stream."""

    rank: int
    stream: str
    lines: list[tuple[float, str]]


def labels_key(labels: dict[str, str]) -> str:
    return json.dumps(labels, sort_keys=True, separators=(",", ":")) if labels else "{}"


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Return one piece per series and producer: what a segment costs is mostly per segment, not per point."""
    groups: dict[tuple[str, str, str], list[Piece]] = {}
    for piece in pieces:
        if piece.columns.size:
            groups.setdefault((*piece.key, piece.producer), []).append(piece)
    return [_one_piece(group) for group in groups.values()]


def write_points(run_id: str, *, attempt: int, cursor: int, pieces: list[Piece]) -> None:
    """Store merged pieces as segments, and fold them into their series' summaries."""
    by_series: dict[tuple[str, str], list[Piece]] = {}
    for piece in pieces:
        by_series.setdefault(piece.key, []).append(piece)
    ids = _write_summaries(run_id, attempt, by_series)
    Segment.objects.bulk_create(
        _segment(ids[key], attempt, cursor, piece, columns)
        for key, group in by_series.items()
        for piece in group
        for columns in _cut(piece.columns)
    )


def write_lines(run_id: str, *, attempt: int, cursor: int, lines: Iterable[Lines]) -> None:
    """Store log lines, chunked per rank and stream."""
    streams: dict[tuple[int, str], list[tuple[float, str]]] = {}
    for part in lines:
        streams.setdefault((part.rank, part.stream), []).extend(part.lines)
    chunks = []
    for (rank, stream), everything in streams.items():
        for start in range(0, len(everything), LINES_PER_CHUNK):
            some = everything[start : start + LINES_PER_CHUNK]
            times = [at for at, _ in some]
            chunks.append(
                LogChunk(
                    run_id=run_id,
                    attempt=attempt,
                    rank=rank,
                    stream=stream,
                    cursor=cursor,
                    first_time=min(times),
                    last_time=max(times),
                    num_lines=len(some),
                    data=encode_lines(some),
                )
            )
    LogChunk.objects.bulk_create(chunks)


def _one_piece(group: list[Piece]) -> Piece:
    first = group[0]
    columns = joined([piece.columns for piece in group])
    return Piece(first.producer, first.sequence, first.name, first.labels, columns)


def _cut(columns: Columns) -> Iterator[Columns]:
    for start in range(0, columns.size, POINTS_PER_SEGMENT):
        yield columns.part(start, start + POINTS_PER_SEGMENT)


def _segment(series_id: int, attempt: int, cursor: int, piece: Piece, columns: Columns) -> Segment:
    steps, times, values = columns
    return Segment(
        series_id=series_id,
        attempt=attempt,
        cursor=cursor,
        producer=piece.producer,
        sequence=piece.sequence,
        count=steps.size,
        first_step=int(steps.min()),
        last_step=int(steps.max()),
        first_time=float(times.min()),
        last_time=float(times.max()),
        data=encode(steps, times, values),
    )


def _write_summaries(
    run_id: str, attempt: int, by_series: dict[tuple[str, str], list[Piece]]
) -> dict[tuple[str, str], int]:
    """Fold new points into the series' rows (made where missing) and return the rows' ids."""
    known = {(row.name, row.labels_key): row for row in _rows(run_id, {name for name, _ in by_series})}
    rows = []
    for (name, labels), pieces in by_series.items():
        old = known.get((name, labels))
        row = Series(run_id=run_id, name=name, labels=pieces[0].labels, labels_key=labels)
        if old is not None:
            for column in SUMMARY:
                setattr(row, column, getattr(old, column))
        for piece in pieces:
            _fold(row, attempt, piece.columns)
        rows.append(row)
    # One statement for old and new rows alike; it fills in the primary keys of both.
    Series.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["run_id", "name", "labels_key"], update_fields=SUMMARY
    )
    return {(row.name, row.labels_key): row.pk for row in rows}


def _rows(run_id: str, names: set[str]) -> Iterator[Series]:
    ordered = sorted(names)
    for start in range(0, len(ordered), NAMES_PER_QUERY):
        yield from Series.objects.filter(run_id=run_id, name__in=ordered[start : start + NAMES_PER_QUERY])


def _fold(row: Series, attempt: int, columns: Columns) -> None:
    """Add points to a summary. ``last`` is the point at the right edge of the chart: of the newest attempt, the
    largest step, and of these the latest; ``last_step`` is its step."""
    steps, times, values = columns
    finite = values[np.isfinite(values)]
    row.count += steps.size
    first = int(steps.min())
    row.first_step = first if row.first_step is None else min(row.first_step, first)
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        row.min = low if row.min is None else min(row.min, low)
        row.max = high if row.max is None else max(row.max, high)
    at_end = np.flatnonzero(steps == steps.max())
    index = int(at_end[np.flatnonzero(times[at_end] == times[at_end].max())[-1]])
    newest = (attempt, int(steps[index]), float(times[index]))
    if row.last_step is None or row.last_time is None or newest >= (row.last_attempt, row.last_step, row.last_time):
        value = float(values[index])
        row.last_attempt, row.last_step, row.last_time = newest
        row.last = value if math.isfinite(value) else None
        row.last_text = text_of(value)


def text_of(value: float) -> str:
    """Return the JSON word of a value that is not finite, and "" for every other."""
    if math.isfinite(value):
        return ""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
