"""Looking at a part of a log: what there is, some lines of it by their place, and where a line is.

Everything here is of one moment, and exact: the place of a line is the number of lines before it, of those that fit
the filters.
"""

from collections import Counter
from collections.abc import Callable
from operator import itemgetter
from typing import Annotated, TypedDict, TypeVar

import numpy as np
from msgspec import Meta

from runs.records.logs.chunks import Codes, Places
from runs.records.logs.index import Index, Refs, chunk_table_of, index_of, times_of
from runs.records.logs.levels import ERROR, NAMES, WARNING
from runs.records.logs.lines import STREAMS, Filters, LineDocument, LineId, document
from runs.records.logs.read import opened
from runs.records.metrics.models import LogChunk, LogStream
from runs.records.metrics.progress import cursor_of, snapshot

MAX_CHARS = 4_000  # of a line in a list
NUM_MARKS = 200
MARK = "place of the first line, errors, warnings"
T = TypeVar("T", int, str)

MAX_SORTED = 20_000_000  # lines; they take some 20 bytes each


class ErrorPlace(TypedDict):
    id: str
    index: int
    rank: int
    time: float


class Overview(TypedDict):
    total: Annotated[int, Meta(description="lines that fit the filters")]
    levels: Annotated[dict[str, int], Meta(description="how many lines of each level fit the other filters")]
    ranks: dict[int, int]
    streams: dict[str, int]
    attempts: dict[int, int]
    first_error: ErrorPlace | None
    first_time: float | None
    last_time: float | None
    cursor: Annotated[int, Meta(description="the number of batches that this has seen")]
    marks: Annotated[list[list[int]], Meta(description=f"[{MARK}] of at most {NUM_MARKS} stretches")]


class Window(TypedDict):
    total: int
    start: int
    items: list[LineDocument]
    cursor: int


class Located(TypedDict):
    index: int
    id: str


def overview(run_id: str, filters: Filters) -> Overview:
    """Return how many lines fit, and how many would with one filter less, for each value of it."""
    with snapshot():
        table = chunk_table_of(run_id)

        def part(some: Filters) -> Index:
            return Index(table.of_streams([row for row in table.streams if some.fits(row)]), some.levels)

        index = part(filters)
        levels = part(filters._replace(levels=())).table.counts.sum(axis=0)
        streams = _counted(part(filters._replace(stream="")), lambda row: row.name)
        return {
            "total": index.total,
            "levels": dict(zip(NAMES, levels.tolist(), strict=True)),
            "ranks": _counted(part(filters._replace(ranks=())), lambda row: row.rank),
            "streams": dict.fromkeys(STREAMS, 0) | streams,
            "attempts": _counted(part(filters._replace(attempt=None)), lambda row: row.attempt),
            "first_error": _first_error(index),
            "first_time": float(index.table.first_time[index.counts > 0].min()) if index.total else None,
            "last_time": float(index.table.last_time[index.counts > 0].max()) if index.total else None,
            "cursor": cursor_of(run_id),
            "marks": marks(index),
        }


def _counted(index: Index, of: Callable[[LogStream], T]) -> dict[T, int]:
    found: Counter[T] = Counter()
    for row, count in zip(index.table.stream.tolist(), index.counts.tolist(), strict=True):
        found[of(index.table.streams[row])] += count
    return dict(sorted(found.items(), key=itemgetter(0)))


def _first_error(index: Index) -> ErrorPlace | None:
    if index.levels and ERROR not in index.levels:
        return None
    refs = Index(index.table, {ERROR}).lines_at(0, 1)
    if not refs.rows.size:
        return None
    (item,) = items(index, refs)
    (place,) = index.ordinals(refs, times_of(index, refs)).tolist()
    return {"id": item["id"], "index": place, "rank": item["rank"], "time": item["time"]}


def marks(index: Index) -> list[list[int]]:
    """Return [MARK] of stretches of equally many lines."""
    if not index.total:
        return []
    number = min(NUM_MARKS, index.total)
    starts = np.arange(number) * index.total // number
    columns = [starts]
    num_told = int(index.table.counts[:, [ERROR, WARNING]].sum())
    is_much = num_told * len(index.table.streams) > 4 * index.total  # each is looked up in what overlaps it
    levels = _levels(index) if is_much and index.total <= MAX_SORTED else None
    for level in (ERROR, WARNING):
        places = _places_of(index, level) if levels is None else np.flatnonzero(levels == level)
        columns.append(np.bincount(np.searchsorted(starts, places, "right") - 1, minlength=number))
    return np.stack(columns, axis=1).tolist()  # type: ignore[no-any-return]


def _levels(index: Index) -> Codes:
    found = []
    for row, columns in index.columns(np.flatnonzero(index.counts)):
        fits = index.fits(columns)
        found.append((row, index.order(row, columns)[fits], columns.levels[fits]))
    found.sort(key=itemgetter(0))
    sequence = np.argsort(np.concatenate([times for _, times, _ in found]), kind="stable")
    levels: Codes = np.concatenate([part for _, _, part in found])[sequence]
    return levels


def _places_of(index: Index, level: int) -> Places:
    rows = np.flatnonzero(index.table.counts[:, level])
    if not rows.size or (index.levels and level not in index.levels):
        return np.zeros(0, np.int64)
    owners, lines, times = [], [], []
    for row, columns in index.columns(rows):
        here = np.flatnonzero(columns.levels == level)
        owners.append(np.full(here.size, row))
        lines.append(here)
        times.append(index.order(row, columns)[here])
    return index.ordinals(Refs(np.concatenate(owners), np.concatenate(lines)), np.concatenate(times))


def window(run_id: str, start: int, limit: int, filters: Filters) -> Window:
    """Return lines by their place; ``start`` below 0 counts from the end."""
    with snapshot():
        index = index_of(run_id, filters)
        first = max(0, index.total + start) if start < 0 else start
        found = items(index, index.lines_at(first, limit))
        for place, item in enumerate(found, first):
            item["index"] = place
        return {"total": index.total, "start": first, "items": found, "cursor": cursor_of(run_id)}


def items(index: Index, refs: Refs) -> list[LineDocument]:
    """Return lines as the API has them, in the order of refs, long ones cut. One chunk is open at a time."""
    table = index.table
    found: dict[int, LineDocument] = {}
    for row in np.unique(refs.rows).tolist():
        columns, texts = opened(LogChunk.objects.get(pk=int(table.ids[row])))
        stream, first_line = table.place(row)
        for place in np.flatnonzero(refs.rows == row).tolist():
            line = int(refs.lines[place])
            time, level = float(columns.times[line]), int(columns.levels[line])
            found[place] = cut(document(stream, first_line + line, time, level, texts.text(line)))
    return [found[place] for place in range(len(found))]


def cut(item: LineDocument) -> LineDocument:
    """Return the line without what is too long for a list; then ``length`` has its size."""
    if len(item["text"]) > MAX_CHARS:
        item["length"] = len(item["text"])
        item["text"] = item["text"][:MAX_CHARS]
    return item


def find_line(index: Index, wanted: LineId) -> Refs | None:
    """Return where the line is; None where there is none, or it does not fit."""
    table = index.table
    for place, stream in enumerate(table.streams):
        if (stream.attempt, stream.rank, stream.name) == wanted[:3]:
            rows = np.flatnonzero(
                (table.stream == place)
                & (table.first_line <= wanted.line)
                & (wanted.line < table.first_line + table.num_lines)
            )
            if rows.size and index.counts[rows[0]]:
                line = wanted.line - int(table.first_line[rows[0]])
                ((_, columns),) = index.columns(rows)
                if index.fits(columns)[line]:
                    return Refs(rows, np.array([line]))
    return None


def locate(run_id: str, wanted: LineId, filters: Filters) -> Located | None:
    """Return the place of a line, None where it is not among those that fit."""
    with snapshot():
        index = index_of(run_id, filters)
        refs = find_line(index, wanted)
        return None if refs is None else _located(index, refs)


def locate_time(run_id: str, time: float, filters: Filters) -> Located | None:
    """Return the first line at that moment or behind it."""
    with snapshot():
        index = index_of(run_id, filters)
        refs = index.lines_at(index.num_before(time), 1)
        return _located(index, refs) if refs.rows.size else None


def locate_error(run_id: str, place: int, filters: Filters, *, is_next: bool) -> Located | None:
    """Return the next error behind that place, or the last one before it."""
    with snapshot():
        index = index_of(run_id, filters)
        if index.levels and ERROR not in index.levels:
            return None
        errors = Index(index.table, {ERROR})
        at = max(place, -1) + 1 if is_next else min(max(place, 0), index.total)
        here = index.lines_at(at, 1)
        number = int(errors.ordinals(here, times_of(index, here))[0]) if here.rows.size else errors.total
        if not is_next:
            number -= 1
        refs = errors.lines_at(number, 1) if number >= 0 else None
        return _located(index, refs) if refs is not None and refs.rows.size else None


def _located(index: Index, refs: Refs) -> Located:
    (row,), (line,) = refs
    stream, first_line = index.table.place(row)
    name = LineId(stream.attempt, stream.rank, stream.name, first_line + int(line))
    return {"index": int(index.ordinals(refs, times_of(index, refs))[0]), "id": name.text}


def whole_line(run_id: str, wanted: LineId) -> LineDocument | None:
    """Return one line uncut, None where there is none."""
    rows = LogChunk.objects.filter(
        run_id=run_id, stream__attempt=wanted.attempt, stream__rank=wanted.rank, stream__name=wanted.stream
    )
    chunk = rows.filter(first_line__lte=wanted.line).select_related("stream").order_by("-first_line").first()
    if chunk is None or wanted.line >= chunk.first_line + chunk.num_lines:
        return None
    place = wanted.line - chunk.first_line
    columns, texts = opened(chunk)
    return document(
        chunk.stream, wanted.line, float(columns.times[place]), int(columns.levels[place]), texts.text(place)
    )
