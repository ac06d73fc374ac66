"""Reading logs from one end to the other: the lines of all ranks, merged by time.

Lines arrive late: a rank's buffer, or a node that was out of contact, may bring lines that are older than what was
read already. So a page cursor holds, beside the place in time, which batches it is about: first everything committed
up to ``high`` by time, then, from the cursor at its end, what was committed since, by time again. Whoever follows
such cursors reads every line once.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice, takewhile
from operator import itemgetter
from typing import NamedTuple, TypedDict

import numpy as np

from runs.records.logs.chunks import ChunkPlace, Columns, Texts, decode_columns, placed
from runs.records.logs.lines import Filters, Key, LineDocument, document, key_in, key_of, line_behind
from runs.records.logs.patterns import literal
from runs.records.logs.writing import StreamLines
from runs.records.metrics.codec import Floats
from runs.records.metrics.models import LogChunk, LogStream
from runs.records.metrics.progress import cursor_of, snapshot
from runs.values import cursors
from trainyard.formats.words import ANSI

Line = tuple[Key, LineDocument]
Find = Callable[[Texts, int], Iterator[int]]  # the numbers of lines that are wanted, from one on
NAMES = ("pk", "stream_id", "first_line", "num_lines", "first_time", "last_time")
EVERYTHING = Filters()


class BadCursor(ValueError):
    """A cursor that read_logs() did not make."""


class Span(NamedTuple):
    """Lines behind line ``after`` that were committed after ``low`` and up to ``high`` (None: all, or up to now)."""

    low: int = 0
    high: int | None = None
    after: Key | None = None

    def cursor(self) -> str:
        return cursors.cursor_of(self)


def span_of(cursor: str) -> Span:
    """Return the lines that a cursor stands before. Raises BadCursor."""
    try:
        low, high, key = cursors.value_of(cursor)
        return Span(int(low), None if high is None else int(high), None if key is None else key_in(key))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadCursor(f"{cursor[:80]!r} is no cursor of this list") from error


class LogPage(TypedDict):
    items: list[LineDocument]
    next: str | None
    cursor: str


def read_logs(
    run_id: str, rank: int | None = None, after: str = "", q: str = "", limit: int = 500, tail: bool = False
) -> LogPage:
    """Return a page of lines: ``items``, ``next`` (None at the end of what there is) and ``cursor`` (never None:
    pass it as ``after`` to read on later). ``q`` keeps lines that contain it in any case; ``tail`` gives the last
    ``limit`` lines instead of the next ones. Raises BadCursor."""
    span = span_of(after) if after else Span()
    filters = EVERYTHING if rank is None else Filters(ranks={rank})
    find = literal(q, is_case=False).lines if q else None
    with snapshot():
        now = cursor_of(run_id)
        high = now if span.high is None else span.high
        span, at_end = span._replace(high=high), Span(low=high).cursor()
        if tail:
            last = list(islice(backward(run_id, filters, span._replace(after=None), find), limit))[::-1]
            return {"items": [item for _, item in last], "next": None, "cursor": at_end}
        found = list(islice(forward(run_id, filters, span, find), limit + 1))
    if len(found) > limit:
        cursor = span._replace(after=found[limit - 1][0]).cursor()
        return {"items": [item for _, item in found[:limit]], "next": cursor, "cursor": cursor}
    # The end of this snapshot; more may have been committed since it was taken.
    return {"items": [item for _, item in found], "next": at_end if high < now else None, "cursor": at_end}


def end_of_log(run_id: str, num_lines: int) -> list[tuple[str, str]]:
    """Return level and text of the last lines, without what colours them in a terminal."""
    found = read_logs(run_id, limit=num_lines, tail=True)["items"]
    return [(line["level"], ANSI.sub("", line["text"])) for line in found]


def read_log_text(run_id: str, filters: Filters = EVERYTHING) -> Iterator[str]:
    """Yield the whole log as lines of text: time, rank, stream, text."""
    for _, line in forward(run_id, filters, Span()):
        yield f"{_moment(line['time'])} rank {line['rank']} {line['stream']}: {line['text']}\n"


def _moment(at: float) -> str:
    """Return Unix seconds as a date and time, and as they are where no calendar has them: ranks have odd clocks."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(at)


# The lines of all streams of a run as one, by time, opened chunk by chunk.
#
# The list of chunks is read once. Compaction may replace some during a long read: then what is left is
# looked up again from the last line that was given.


class _Moved(Exception):
    """A chunk is not there any more."""


class _Chunk(NamedTuple):
    pk: int
    stream: LogStream
    first_line: int
    num_lines: int
    first_time: float
    last_time: float

    @property
    def first(self) -> Key:
        return key_of(self.stream, self.first_time, self.first_line)

    @property
    def last(self) -> Key:
        return key_of(self.stream, self.last_time, self.first_line + self.num_lines - 1)

    def open(self) -> tuple[Columns, Floats, Texts]:
        row = LogChunk.objects.filter(pk=self.pk).first()
        if row is None:
            raise _Moved
        columns, texts = opened(row)
        return columns, placed(columns.times, self.first_time), texts


def opened(row: LogChunk) -> tuple[Columns, Texts]:
    place = ChunkPlace(row.run_id, row.stream_id, row.first_line)
    return decode_columns(bytes(row.columns)), place.shown_texts(bytes(row.text), row.num_lines)


def forward(run_id: str, filters: Filters, span: Span, find: Find | None = None) -> Iterator[Line]:
    """Yield the lines oldest first."""
    while True:
        try:
            # A chunk is opened when its first line is due, and closed when its last one was.
            chunks = [(chunk.first, chunk) for chunk in _chunks(run_id, filters, span)]
            lines_of = partial(_lines, filters=filters, span=span, find=find)
            for key, line in _merged(chunks, lines_of, lambda key: key):
                span = span._replace(after=key)
                yield key, line
            return
        except _Moved:
            continue


def backward(run_id: str, filters: Filters, span: Span, find: Find | None = None) -> Iterator[Line]:
    """Yield the lines newest first; within a snapshot, since it does not look again."""
    chunks = [(_turned(chunk.last), chunk) for chunk in _chunks(run_id, filters, span)]
    lines_of = partial(_lines, filters=filters, span=span, find=find, is_backward=True)
    return _merged(chunks, lines_of, _turned)


def _turned(key: Key) -> tuple[float, ...]:
    return tuple(-part for part in key)


def _merged(
    chunks: Iterable[tuple[tuple[float, ...], _Chunk]],
    lines_of: Callable[[_Chunk], Iterator[Line]],
    place_of: Callable[[Key], tuple[float, ...]],
) -> Iterator[Line]:
    """Yield the lines of chunks in the order of their places; each chunk comes with that of the first line to come."""
    heap: list[tuple[tuple[float, ...], int, _Chunk, Iterator[Line] | None, Line | None]] = [
        (place, number, chunk, None, None) for number, (place, chunk) in enumerate(chunks)
    ]
    heapq.heapify(heap)
    while heap:
        _, number, chunk, lines, line = heapq.heappop(heap)
        if line is not None:
            yield line
        if lines is None:
            lines = lines_of(chunk)
        if (following := next(lines, None)) is not None:
            heapq.heappush(heap, (place_of(following[0]), number, chunk, lines, following))


def _lines(
    chunk: _Chunk, filters: Filters, span: Span, find: Find | None, *, is_backward: bool = False
) -> Iterator[Line]:
    columns, order, texts = chunk.open()
    start = int(np.searchsorted(columns.batches, span.low, "right"))
    end = columns.size if span.high is None else int(np.searchsorted(columns.batches, span.high, "right"))
    if span.after is not None:
        start = max(start, line_behind(chunk.stream, chunk.first_line, order, span.after))
    wanted: Iterable[int] = range(start, end)
    if find is not None:
        wanted = takewhile(lambda number: number < end, find(texts, start))
    for number in reversed(list(wanted)) if is_backward else wanted:
        level = int(columns.levels[number])
        if not filters.levels or level in filters.levels:
            key = key_of(chunk.stream, float(order[number]), chunk.first_line + number)
            yield key, document(chunk.stream, key.line, float(columns.times[number]), level, texts.text(number))


def _chunks(run_id: str, filters: Filters, span: Span) -> list[_Chunk]:
    streams = {row.pk: row for row in LogStream.objects.filter(run_id=run_id) if filters.fits(row)}
    rows = LogChunk.objects.filter(run_id=run_id)
    if len(streams) == 1:
        rows = LogChunk.objects.filter(stream__in=streams)
    if span.low:
        rows = rows.filter(cursor__gt=span.low)
    if span.after is not None:
        rows = rows.filter(last_time__gte=span.after.time)
    return [_Chunk(pk, streams[of], *numbers) for pk, of, *numbers in rows.values_list(*NAMES) if of in streams]


# The lines that were committed after a cursor, for pages that follow a run. Each line keeps the number of its batch, so
# compaction loses nothing.


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
    columns, texts = opened(chunk)
    start = int(np.searchsorted(columns.batches, cursor, "right"))
    while start < columns.size:
        batch = int(columns.batches[start])
        end = int(np.searchsorted(columns.batches, batch, "right"))
        timed = [(float(columns.times[number]), texts.text(number)) for number in range(start, end)]
        yield batch, StreamLines(chunk.stream.rank, chunk.stream.name, timed)
        start = end
