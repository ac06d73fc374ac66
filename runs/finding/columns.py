"""Columns of the table of runs: the cells of a window, and what is counted, grouped and drawn of a whole query.

A cell is a number, a text, or None where the run has no value. ``true``, ``false`` and lists are texts, a list as JSON;
a time is a number of Unix seconds; the tags are one text with commas. Functions raise FilterError for an unknown field.
Nothing here asks who may see what: runs and queries come from ``find_runs``.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from django.db.models import QuerySet

from runs.finding.fields import CONFIG, FIXED, STATISTICS, SUMMARY, Cell, Field, is_more_better, is_of_spec, read_field
from runs.finding.index import MEAN, Column, Numbers, index, packed
from runs.finding.language import FilterText
from runs.models import Project, Run, User
from runs.records.metrics.models import Series
from runs.records.points import read

Statistic = Literal["last", "min", "max"]
TIMES = ("created", "ended")
NEWEST = 200  # runs whose fields are the known ones
MAX_DEPTH = 16  # of a field
MOST_METRICS = 20_000  # of more, those that have the words
MAX_TEXTS = 20  # of a distribution


def values(runs: Sequence[Run], names: Iterable[str]) -> dict[str, dict[str, Cell]]:
    """Return the cells of the runs, which are a window of the table: at most a few hundred."""
    fields = [_field(name) for name in names]
    return {key: {one.name: cell for one, cell in zip(fields, row, strict=True)} for key, row in _rows(runs, fields)}


def _field(name: str) -> Field:
    return read_field(FilterText(name, 0))


def _rows(runs: Sequence[Run], fields: Sequence[Field]) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    keys = [run.pk for run in runs]
    kinds = {field.kind for field in fields}
    stored = {
        kind: _fixed_cells(kind, [getattr(run, STORED[kind]) for run in runs]) for kind in STORED if kind in kinds
    }
    series = {field.series for field in fields if field.kind == "summary"}
    figures = {name: read.summaries(keys, name=name) for name in series}
    means = {field.series: dict(read.means(field.series, keys)) for field in fields if field.statistic == MEAN}

    def cell(number: int, run: Run, field: Field) -> Cell:
        match field.kind:
            case "spec" | "config":
                return plain(_at(getattr(run, field.kind), field.path))
            case "summary" if field.statistic == MEAN:
                return plain(means[field.series].get(run.pk))
            case "summary":
                summary = figures[field.series][run.pk].get(field.series)
                return plain(summary[cast(Statistic, field.statistic)]) if summary else None
        return stored[field.kind][number]

    for number, run in enumerate(runs):
        yield run.pk, tuple(cell(number, run, field) for field in fields)


def _at(document: Any, path: Sequence[str]) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def plain(value: Any) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        number = float(value) if abs(value) < 1e300 else math.nan
        return number if math.isfinite(number) else None
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else None


# All runs of a query.

STORED = {
    "status": "status", "name": "name", "project": "project_id", "user": "created_by_id", "created": "created_at",
    "ended": "ended_at", "tag": "tags",
}  # fmt: skip


def table(query: QuerySet[Run], fields: Sequence[Field]) -> tuple[Numbers, list[Column]]:
    """Return the numbers of the runs of the query, and the cells of each field in their order. What every run has is
    read with them, so that it is as it is now; the rest is in the index. Raises Building."""
    fixed = [kind for kind in STORED if any(field.kind == kind for field in fields)]
    rows, *lists = packed(query, *(STORED[kind] for kind in fixed))
    numbers = np.array(rows, np.int64)
    read_now = {kind: Column.of(_fixed_cells(kind, cells)) for kind, cells in zip(fixed, lists, strict=True)}
    if len(fixed) == len({field.kind for field in fields}):
        index.know()
    found, is_checked = [], False
    for field in fields:
        if field.kind in read_now:
            found.append(read_now[field.kind])
            continue
        found.append(index.column(field, is_checked=is_checked).at(numbers))
        is_checked = True
    return numbers, found


def _fixed_cells(kind: str, cells: list[Any]) -> list[Cell]:
    if kind == "project":
        return list(map(dict(Project.objects.values_list("pk", "name")).get, cells))
    if kind == "user":
        return list(map(dict(User.objects.filter(pk__in=set(cells)).values_list("pk", "username")).get, cells))
    if kind in TIMES:
        return [None if at is None else _seconds(at) for at in cells]
    if kind == "tag":  # SQLite keeps a list as a text
        return [", ".join(json.loads(tags) if isinstance(tags, str) else tags) or None for tags in cells]
    return cells


def _seconds(at: str | datetime) -> float:
    moment = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# Groups.


@dataclass(frozen=True, slots=True)
class GroupFigure:
    """A figure over the runs of a group that have it. ``best`` is the largest of a series of which more is better, of
    any other field the least."""

    count: int
    mean: float | None = None
    best: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """``key`` has a cell for each field that was grouped by; of a time it is the day, such as ``2026-01-31``."""

    key: tuple[Cell, ...]
    count: int  # of runs
    figures: dict[str, GroupFigure]


def groups(query: QuerySet[Run], by: Sequence[str], figures: Sequence[str], limit: int = 200) -> list[Group]:
    """Return the runs of the query by what they have in the fields ``by``, the largest group first; at most ``limit``
    groups, so that one more than are shown tells that there are more. Raises Building."""
    keys, wanted = [_field(name) for name in by], [_field(name) for name in figures]
    numbers, columns = table(query, [*keys, *wanted])
    if not numbers.size:
        return []
    key_columns = [_days(one) if field.kind in TIMES else one for field, one in zip(keys, columns, strict=False)]
    places = np.zeros(numbers.size, np.int64)  # of each run's group, in the order of their keys
    for column in key_columns:
        _, own = np.unique(column.keys(is_descending=False), return_inverse=True)
        _, places = np.unique(places * (int(own.max()) + 1) + own, return_inverse=True)
    counts = np.bincount(places)
    _, examples = np.unique(places, return_index=True)
    spread = {
        field.name: _spread(field, column, places, counts.size)
        for field, column in zip(wanted, columns[len(keys) :], strict=True)
    }
    return [
        Group(
            tuple(column.cell(int(examples[place])) for column in key_columns),
            int(counts[place]),
            {name: found[place] for name, found in spread.items()},
        )
        for place in np.argsort(-counts, kind="stable")[:limit].tolist()
    ]


def _days(column: Column) -> Column:
    days = np.floor(column.numbers / 86_400)
    known = np.unique(days[~np.isnan(days)]).tolist()
    text_of = {day: datetime.fromtimestamp(day * 86_400, UTC).date().isoformat() for day in known}
    return Column.of([text_of.get(day) for day in days.tolist()])


def _spread(field: Field, column: Column, places: Numbers, num_groups: int) -> list[GroupFigure]:
    """Return the figures of each group; texts are none."""
    have = np.flatnonzero(~np.isnan(column.numbers))
    places, values = places[have], column.numbers[have]
    counts, sums = np.bincount(places, minlength=num_groups), np.bincount(places, values, num_groups)
    lows, highs = np.full(num_groups, np.inf), np.full(num_groups, -np.inf)
    np.minimum.at(lows, places, values)
    np.maximum.at(highs, places, values)
    bests = highs if field.kind == "summary" and is_more_better(field.series) else lows
    means = sums / np.maximum(counts, 1)
    rows = zip(*(one.tolist() for one in (counts, means, bests, lows, highs)), strict=True)
    return [GroupFigure(*row) if row[0] else GroupFigure(0) for row in rows]


# The distribution of a column.


@dataclass(frozen=True, slots=True)
class Distribution:
    """``counts[n]`` numbers lie from ``edges[n]`` up to ``edges[n + 1]``, in one bin where all are equal; of texts
    there are the most frequent."""

    edges: list[float]
    counts: list[int]
    texts: list[tuple[str, int]]
    num_texts: int  # runs with any text
    num_missing: int  # runs without a value that a range can hold


def distribution(query: QuerySet[Run], name: str, bins: int = 20) -> Distribution | None:
    """Return how the field's values are spread over the runs of the query; None where none has a value."""
    numbers, [column] = table(query, [_field(name)])
    values, codes = column.numbers[np.isfinite(column.numbers)], column.codes[column.codes >= 0]
    if not values.size and not codes.size:
        return None
    counts, edges = np.histogram(values, bins) if values.size else (np.zeros(0, int), np.zeros(0))
    if values.size and values.min() == values.max():  # where numpy makes a range up
        counts, edges = np.array([values.size]), values[[0, 0]]
    frequent = [(column.texts.known[code], count) for code, count in enumerate(np.bincount(codes).tolist()) if count]
    common = sorted(frequent, key=lambda pair: (-pair[1], pair[0]))[:MAX_TEXTS]
    num_missing = numbers.size - values.size - codes.size
    return Distribution(edges.tolist(), counts.tolist(), common, codes.size, num_missing)


# Names.


class ColumnName(NamedTuple):
    name: str
    kind: Literal["number", "text", "time"]


def names(query: QuerySet[Run], part: str = "", limit: int = 100) -> list[ColumnName]:
    """Return the fields that the newest runs of the query have, of those whose name holds ``part``, in any case: first
    the fields of every run, then by name."""
    found = {name: ColumnName(name, "time" if name in TIMES else "text") for name in FIXED}
    newest = list(query.order_by("-created_at", "-pk").values_list("pk", "spec", "config")[:NEWEST])
    leaves = {path: cell for _, spec, config in newest for path, cell in [*_leaves(config, CONFIG), *_leaves(spec)]}
    for path, cell in sorted(leaves.items()):
        if path not in found and (path.startswith(CONFIG) or is_of_spec(path)):
            found[path] = ColumnName(path, "number" if isinstance(cell, float) else "text")
    series = Series.objects.filter(run_id__in=[key for key, *_ in newest]).order_by("name").distinct()
    metrics = list(series.values_list("name", flat=True)[:MOST_METRICS])
    if len(metrics) == MOST_METRICS:
        metrics += series.filter(name__icontains=part.removeprefix(SUMMARY)).values_list("name", flat=True)[:limit]
    for one in metrics:
        found |= {name: ColumnName(name, "number") for word in STATISTICS if (name := f"{SUMMARY}{one}.{word}")}
    matching = (name for key, name in found.items() if part.lower() in key.lower())
    return [name for name, _ in zip(matching, range(limit), strict=False)]


def _leaves(document: Any, prefix: str = "") -> Iterator[tuple[str, Cell]]:
    for key, value in document.items():
        if not key or set('."\\') & set(key):
            continue  # no path leads there
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.") if prefix.count(".") < MAX_DEPTH else ()
        elif (cell := plain(value)) is not None:
            yield f"{prefix}{key}", cell
