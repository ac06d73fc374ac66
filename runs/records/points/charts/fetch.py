"""Rows of many series in few queries: each wanted thing is a row of a table that the statement begins with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runs.records.metrics.bulk import in_parts, marks, query
from runs.records.metrics.codec import Columns, Floats, Steps, decode_values, joined
from runs.records.points.blocks import decode_block
from runs.records.points.compaction.levels import Place
from runs.records.points.compaction.pyramid import Buckets, decode
from runs.records.points.segments import axes_of, order_of
from trainyard.grouping import grouped

MIN_STEP, MAX_STEP = -(2**63), 2**63 - 1
MAX_TIME = 1.7e308
WANTS_PER_QUERY = 400

Part = tuple[int, int, Columns]  # cursor, place among those of the cursor, points


class Want(NamedTuple):
    """A range of steps of one series and attempt (both ends included), and of the times that count."""

    place: Place
    low: int
    high: int
    start: float = -MAX_TIME
    end: float = MAX_TIME
    level: int = -1


@dataclass(frozen=True)
class Extent:
    first_step: int
    last_step: int
    first_time: float
    last_time: float
    count: int


def extents(wants: Sequence[Want]) -> dict[int, Extent]:
    """Return the extent of each want, by its place in the list; of those that have segments."""
    sql = """
        SELECT want.n, MIN(s.first_step), MAX(s.last_step), MIN(s.first_time), MAX(s.last_time), SUM(s.count)
        FROM want CROSS JOIN metrics_segment s
        WHERE s.series_id = want.series AND s.attempt = want.attempt AND s.first_step <= want.high
            AND s.last_step >= want.low AND s.first_time <= want.stop AND s.last_time >= want.start
        GROUP BY want.n
    """
    return {n: Extent(first, last, start, end, int(count)) for n, first, last, start, end, count in _ask(sql, wants)}


def available_levels(series: Iterable[int]) -> dict[Place, list[int]]:
    """Return the levels that each place has, ascending."""
    columns = "SELECT DISTINCT series_id, attempt, level FROM metrics_level"
    rows = (
        row
        for some in in_parts(sorted(set(series)))
        for row in query(f"{columns} WHERE series_id IN ({marks(len(some))}) ORDER BY level", some)
    )
    return grouped(((series_id, attempt), level) for series_id, attempt, level in rows)


def level_buckets(wants: Sequence[Want]) -> dict[int, list[Buckets]]:
    """Return the rows of each want's level that meet its range."""
    sql = """
        SELECT want.n, l.data FROM want CROSS JOIN metrics_level l
        WHERE l.series_id = want.series AND l.level = want.level AND l.attempt = want.attempt
            AND l.first_step <= want.high AND l.last_step >= want.low
    """
    found: dict[int, list[Buckets]] = {}
    for n, data in _ask(sql, wants):
        buckets, want = decode(bytes(data)), wants[n]
        low, high = np.searchsorted(buckets.key, (want.low >> want.level, (want.high >> want.level) + 1))
        found.setdefault(n, []).append(buckets.part(int(low), int(high)))
    return found


LOOSE, SEALED = "(NOT s.is_sealed OR s.base > want.level)", "(s.is_sealed AND s.base <= want.level)"


def segments(wants: Sequence[Want], which: str, axes: dict[int, tuple[Steps, Floats]]) -> dict[int, list[Part]]:
    """Return the segments that meet each want: LOOSE ones, which are not in its level, or SEALED ones, which are.
    ``axes`` is what was read before, and grows."""
    sql = f"""
        SELECT want.n, s.id, s.axis_id, s.cursor, s.data FROM want CROSS JOIN metrics_segment s
        WHERE s.series_id = want.series AND s.attempt = want.attempt AND s.first_step <= want.high
            AND s.last_step >= want.low AND s.first_time <= want.stop AND s.last_time >= want.start AND {which}
    """
    rows = _ask(sql, wants)
    axes.update(axes_of({axis_id for _, _, axis_id, _, _ in rows} - axes.keys()))
    found: dict[int, dict[int, Part]] = {}
    for n, pk, axis_id, cursor, data in rows:
        found.setdefault(n, {})[pk] = cursor, pk, Columns(*axes[axis_id], decode_values(bytes(data)))
    return {n: list(parts.values()) for n, parts in found.items()}


def blocks(run_ids: Sequence[str], series: Iterable[int], after: int = 0) -> dict[Place, list[Part]]:
    """Return what the runs' blocks of batches behind the cursor ``after`` have of the series."""
    wanted, select = set(series), "SELECT attempt, cursor, data FROM metrics_block"
    order = "AND cursor > %s ORDER BY cursor, id"
    return grouped(
        ((series_id, attempt), (cursor, MAX_STEP, columns))
        for some in in_parts(run_ids)
        for attempt, cursor, data in query(f"{select} WHERE run_id IN ({marks(len(some))}) {order}", [*some, after])
        for series_id, columns in decode_block(bytes(data), wanted)
    )


def in_order(parts: Sequence[Part]) -> tuple[Columns, NDArray[np.int64]]:
    """Return the points of at least one part by (step, time, arrival), and the cursor of each."""
    ordered = sorted(parts, key=lambda part: part[:2])
    columns = joined([points for _, _, points in ordered])
    cursors = np.repeat([cursor for cursor, _, _ in ordered], [points.size for _, _, points in ordered])
    order = order_of(columns.steps, columns.times)
    return (columns, cursors) if order is None else (columns.at(order), cursors[order])


def between(parts: Iterable[Part], low: int, high: int) -> list[Part]:
    """Return what of the parts lies in the steps from low to high."""
    found = []
    for cursor, pk, columns in parts:
        if columns.size and int(columns.steps.min()) >= low and int(columns.steps.max()) <= high:
            found.append((cursor, pk, columns))
            continue
        inside = columns.at((columns.steps >= low) & (columns.steps <= high))
        if inside.size:
            found.append((cursor, pk, inside))
    return found


def _ask(sql: str, wants: Sequence[Want]) -> list[tuple[Any, ...]]:
    """Return what the statement selects for ``want``. The cross join makes SQLite look from each want into the index;
    PostgreSQL needs the casts for the types of the numbers."""
    row = "(CAST(%s AS bigint), CAST(%s AS bigint), CAST(%s AS bigint), CAST(%s AS bigint), CAST(%s AS bigint), "
    row += "CAST(%s AS double precision), CAST(%s AS double precision), CAST(%s AS bigint))"
    found: list[tuple[Any, ...]] = []
    for first in range(0, len(wants), WANTS_PER_QUERY):
        some = wants[first : first + WANTS_PER_QUERY]
        rows = ", ".join([row] * len(some))
        table = f"WITH want(n, series, attempt, low, high, start, stop, level) AS (VALUES {rows})"
        values = [value for n, (place, *others) in enumerate(some, first) for value in (n, *place, *others)]
        found += query(f"{table} {sql}", values)
    return found
