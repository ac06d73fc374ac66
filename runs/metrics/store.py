"""Writing points and log lines as segments and chunks, with the running summary of each series.

Called inside the transaction of a batch; nothing here opens one, and nothing here knows of frames or watermarks
(that is runs.ingest.commit).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from runs.metrics.blocks import encode_block
from runs.metrics.codec import Columns, Floats, Steps, encode_lines
from runs.metrics.models import Block, LogChunk
from runs.metrics.segments import Stretch, write_segments
from runs.metrics.summaries import Key, fold_into_rows

LINES_PER_CHUNK = 1000
DIRECT = 2048  # so many points of a series in one batch become a segment at once


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
    """Return one piece per series and producer: what a segment costs is mostly per segment, not per point.

    Series that had the same steps and times before (the same objects) share them afterwards too.
    """
    groups: dict[tuple[str, str, str], list[Piece]] = {}
    for piece in pieces:
        if piece.columns.size:
            groups.setdefault((*piece.key, piece.producer), []).append(piece)
    axes: dict[tuple[int, ...], tuple[Steps, Floats]] = {}
    return [_one_piece(group, axes) for group in groups.values()]


def write_points(run_id: str, *, attempt: int, cursor: int, pieces: list[Piece]) -> None:
    """Store merged pieces, large ones as segments and the small ones together as a block, and fold them into their
    series' summaries."""
    if not pieces:
        return
    by_series: dict[Key, tuple[dict[str, str], list[Columns]]] = {}
    for piece in pieces:
        by_series.setdefault(piece.key, (piece.labels, []))[1].append(piece.columns)
    ids = fold_into_rows(run_id, attempt, by_series)
    small = [(ids[piece.key], piece.columns) for piece in pieces if piece.columns.size < DIRECT]
    large = [Stretch(ids[piece.key], cursor, piece.columns) for piece in pieces if piece.columns.size >= DIRECT]
    if small:
        count = sum(columns.size for _, columns in small)
        Block.objects.create(run_id=run_id, attempt=attempt, cursor=cursor, count=count, data=encode_block(small))
    if large:
        write_segments(run_id, attempt, large)


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


def _one_piece(group: list[Piece], axes: dict[tuple[int, ...], tuple[Steps, Floats]]) -> Piece:
    first = group[0]
    if len(group) == 1:
        return first
    parts = [piece.columns for piece in group]
    key = tuple(identity for part in parts for identity in (id(part.steps), id(part.times)))
    if key not in axes:
        axes[key] = (np.concatenate([part.steps for part in parts]), np.concatenate([part.times for part in parts]))
    columns = Columns(*axes[key], np.concatenate([part.values for part in parts]))
    return Piece(first.producer, first.sequence, first.name, first.labels, columns)
