"""Writing log lines as chunks of numbered lines. Called inside the transaction of a batch, or of a compaction."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from django.db.models import Sum

from runs.records.logs.chunks import ChunkPlace, Columns, cuts, encode_columns, encode_texts, encoded, levels_of, placed
from runs.records.logs.levels import DEBUG, ERROR, INFO, NAMES, WARNING
from runs.records.metrics import bulk
from runs.records.metrics.bulk import IDS_PER_QUERY
from runs.records.metrics.codec import Floats
from runs.records.metrics.models import LogChunk, LogStream
from trainyard.at_rest.keyring import NO_KEYS, Keyring

FIELDS = (
    "run_id", "stream_id", "cursor", "first_line", "num_lines", "size", "first_time", "last_time", "num_errors",
    "num_warnings", "num_infos", "num_debugs", "columns", "text",
)  # fmt: skip
Key = tuple[int, str]  # rank, and stdout, stderr or build


class StreamLines(NamedTuple):
    """Consecutive lines (Unix seconds, text) of one rank and stream."""

    rank: int
    stream: str
    lines: list[tuple[float, str]]


def write_lines(
    run_id: str, *, attempt: int, cursor: int, lines: Iterable[StreamLines], keyring: Keyring = NO_KEYS
) -> None:
    """Append log lines to their streams, encrypted where the keyring encrypts. The caller holds the run's lock."""
    found: dict[Key, list[tuple[float, str]]] = {}
    for part in lines:
        if part.lines:
            found.setdefault((part.rank, part.stream), []).extend(part.lines)
    if not found:
        return
    streams = _streams(run_id, attempt, list(found))
    chunks: list[bulk.Row] = []
    changes: list[bulk.Row] = []
    for key, timed in found.items():
        stream = streams[key]
        times = np.array([at for at, _ in timed], np.float64)
        texts = [encoded(text) for _, text in timed]
        first = max(stream.last_time, times[0]) if stream.num_lines else times[0]
        columns = Columns(times, levels_of(texts), np.full(len(texts), cursor, np.int64))
        chunks += rows_of(run_id, stream.pk, stream.num_lines, placed(times, first), columns, texts, keyring)
        changes.append((stream.num_lines + len(texts), chunks[-1][FIELDS.index("last_time")], stream.pk))
    bulk.insert(LogChunk, FIELDS, chunks)
    bulk.update(LogStream, ("num_lines", "last_time"), changes)


def num_stored_bytes(run_id: str) -> int:
    """Return how much text the run has logged, before it was compressed."""
    return int(LogChunk.objects.filter(run_id=run_id).aggregate(total=Sum("size"))["total"] or 0)


def _streams(run_id: str, attempt: int, keys: Sequence[Key]) -> dict[Key, LogStream]:
    """Return the streams' rows, made where there are none."""
    found = _known(run_id, attempt, keys)
    if missing := [key for key in keys if key not in found]:
        rows = [(run_id, attempt, rank, name, 0, 0.0) for rank, name in missing]
        bulk.insert(LogStream, ("run_id", "attempt", "rank", "name", "num_lines", "last_time"), rows)
        found |= _known(run_id, attempt, missing)
    return found


def _known(run_id: str, attempt: int, keys: Sequence[Key]) -> dict[Key, LogStream]:
    rows = LogStream.objects.filter(run_id=run_id, attempt=attempt)
    ranks = {rank for rank, _ in keys}
    if len(ranks) <= IDS_PER_QUERY:
        rows = rows.filter(rank__in=ranks)
    return {(row.rank, row.name): row for row in rows}


def rows_of(
    run_id: str,
    stream_id: int,
    first_line: int,
    order: Floats,
    columns: Columns,
    texts: Sequence[bytes],
    keyring: Keyring,
) -> list[bulk.Row]:
    """Return the rows of FIELDS for consecutive lines, which ``order`` has the placed times of."""
    found: list[bulk.Row] = []
    edges = cuts([len(text) for text in texts])
    for start, end in pairwise(edges):
        part = columns.part(start, end)
        counts = np.bincount(part.levels, minlength=len(NAMES)).tolist()
        place = ChunkPlace(run_id, stream_id, first_line + start)
        size = sum(len(text) for text in texts[start:end]) + end - start - 1
        found.append(
            (
                run_id, stream_id, int(part.batches[-1]), first_line + start, end - start, size, float(order[start]),
                float(order[end - 1]), counts[ERROR], counts[WARNING], counts[INFO], counts[DEBUG],
                encode_columns(part), place.hide(keyring, encode_texts(texts[start:end])),
            )
        )  # fmt: skip
    return found
