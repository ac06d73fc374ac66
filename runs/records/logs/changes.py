"""The lines that were committed after a cursor, for pages that follow a run. Each line keeps the number of its batch,
so compaction loses nothing."""

from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from runs.records.logs.chunks import ChunkPlace, decode_columns
from runs.records.logs.writing import StreamLines
from runs.records.metrics.models import LogChunk


def num_lines_since(run_id: str, cursor: int, *, at_most: int) -> int:
    """Return how many lines were committed after ``cursor``; beyond ``at_most`` any number above it."""
    total = 0
    rows = LogChunk.objects.filter(run_id=run_id, cursor__gt=cursor)
    for number, columns in rows.values_list("num_lines", "columns").iterator(chunk_size=50):
        batches = decode_columns(bytes(columns)).batches
        total += number - int(np.searchsorted(batches, cursor, "right"))
        if total > at_most:
            break
    return total


def lines_since(run_id: str, cursor: int) -> list[StreamLines]:
    """Return the lines that were committed after ``cursor``, those of a batch before those of the next."""
    rows = LogChunk.objects.filter(run_id=run_id, cursor__gt=cursor).select_related("stream")
    found = [part for chunk in rows.order_by("stream_id", "first_line") for part in _batches(chunk, cursor)]
    return [lines for _, lines in sorted(found, key=itemgetter(0))]


def _batches(chunk: LogChunk, cursor: int) -> Iterator[tuple[int, StreamLines]]:
    columns = decode_columns(bytes(chunk.columns))
    start = int(np.searchsorted(columns.batches, cursor, "right"))
    place = ChunkPlace(chunk.run_id, chunk.stream_id, chunk.first_line)
    texts = place.shown_texts(bytes(chunk.text), chunk.num_lines)
    while start < columns.size:
        batch = int(columns.batches[start])
        end = int(np.searchsorted(columns.batches, batch, "right"))
        timed = [(float(columns.times[number]), texts.text(number)) for number in range(start, end)]
        yield batch, StreamLines(chunk.stream.rank, chunk.stream.name, timed)
        start = end
