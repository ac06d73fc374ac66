"""Columns of the table of runs: the cells of a window, and what is counted, grouped and drawn of a whole query.

A cell is a number, a text, or None where the run has no value. ``true``, ``false`` and lists are texts, a list as JSON;
a time is a number of Unix seconds; the tags are one text with commas. Functions raise FilterError for an unknown field.
Nothing here asks who may see what: runs and queries come from ``find_runs``.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import numpy as np
from django.db.models import QuerySet

from runs.finding.fields import CONFIG, FIXED, SUMMARY, Field, is_more_better, is_of_spec, read_field
from runs.finding.language import FilterText
from runs.models import Project, Run, User
from runs.records.metrics.models import Series
from runs.records.points import read

Cell = float | str | None
TIMES = ("created", "ended")
FIGURES = ("last", "min", "max", "best")
AT_ONCE = 1_000  # runs of which cells are read in one go
NEWEST = 200  # runs whose fields are the known ones
MAX_DEPTH = 16  # of a field
MAX_TEXTS = 20  # of a distribution


def values(runs: Sequence[Run], names: Iterable[str]) -> dict[str, dict[str, Cell]]:
    """Return the cells of the runs, which are a window of the table: at most a few hundred."""
    fields = [_field(name) for name in names]
    return {key: {one.name: cell for one, cell in zip(fields, row, strict=True)} for key, row in _rows(runs, fields)}


def cells(query: QuerySet[Run], fields: Sequence[Field]) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    """Yield the id and the cells of every run of the query."""
    keys = list(query.order_by().values_list("pk", flat=True))
    wanted = Run.objects.only(
        "pk", "name", "status", "project", "created_by", "created_at", "ended_at", "tags", "spec", "config"
    )
    for first in range(0, len(keys), AT_ONCE):
        yield from _rows(list(wanted.filter(pk__in=keys[first : first + AT_ONCE])), fields)


def _field(name: str) -> Field:
    return read_field(FilterText(name, 0))


def _rows(runs: Sequence[Run], fields: Sequence[Field]) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    keys = [run.pk for run in runs]
    kinds = {field.kind for field in fields}
    projects = dict(Project.objects.values_list("pk", "name")) if "project" in kinds else {}
    people = {run.created_by_id for run in runs if run.created_by_id is not None} if "user" in kinds else set()
    users: dict[int | None, str] = dict(User.objects.filter(pk__in=people).values_list("pk", "username"))
    series = {field.series for field in fields if field.kind == "summary"}
    figures = {name: read.summaries(keys, name) for name in series}

    def cell(run: Run, field: Field) -> Cell:
        match field.kind:
            case "spec" | "config":
                return _plain(_at(getattr(run, field.kind), field.path))
            case "summary":
                summary = figures[field.series][run.pk].get(field.series)
                return _plain(summary[field.statistic]) if summary else None
            case "project":
                return projects.get(run.project_id)
            case "user":
                return users.get(run.created_by_id)
            case "created":
                return run.created_at.timestamp()
            case "ended":
                return run.ended_at.timestamp() if run.ended_at else None
            case "tag":
                return ", ".join(run.tags) or None
        return run.status if field.kind == "status" else run.name

    for run in runs:
        yield run.pk, tuple(cell(run, field) for field in fields)


def _at(document: Any, path: Sequence[str]) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _plain(value: Any) -> Cell:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        number = float(value) if abs(value) < 1e300 else math.nan
        return number if math.isfinite(number) else None
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else None


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
    groups, so that one more than are shown tells that there are more."""
    keys, wanted = [_field(name) for name in by], [_field(name) for name in figures]
    found: dict[tuple[Cell, ...], list[tuple[Cell, ...]]] = {}
    for _, row in cells(query, [*keys, *wanted]):
        key = tuple(_day(cell) if field.kind in TIMES else cell for field, cell in zip(keys, row, strict=False))
        found.setdefault(key, []).append(row[len(keys) :])
    largest = sorted(found, key=lambda key: (-len(found[key]), [rank(cell) for cell in key]))[:limit]
    return [
        Group(key, len(found[key]), {
            field.name: _figure(field, [row[place] for row in found[key]]) for place, field in enumerate(wanted)
        })
        for key in largest
    ]  # fmt: skip


def _day(cell: Cell) -> Cell:
    return datetime.fromtimestamp(cell, UTC).date().isoformat() if isinstance(cell, float) else cell


def rank(cell: Cell) -> tuple[int, float, str]:
    """Return what cells are sorted by: numbers, then texts, then those without a value."""
    if cell is None:
        return 2, 0.0, ""
    return (1, 0.0, cell) if isinstance(cell, str) else (0, cell, "")


def _figure(field: Field, column: Iterable[Cell]) -> GroupFigure:
    numbers = np.array([cell for cell in column if isinstance(cell, float)])
    if not numbers.size:
        return GroupFigure(0)
    low, high = float(numbers.min()), float(numbers.max())
    best = high if field.kind == "summary" and is_more_better(field.series) else low
    return GroupFigure(numbers.size, float(numbers.mean()), best, low, high)


# The distribution of a column.


@dataclass(frozen=True, slots=True)
class Distribution:
    """``counts[n]`` numbers lie from ``edges[n]`` up to ``edges[n + 1]``; of texts there are the most frequent."""

    edges: list[float]
    counts: list[int]
    texts: list[tuple[str, int]]
    num_texts: int  # runs with any text
    num_missing: int  # runs without a value


def distribution(query: QuerySet[Run], name: str, bins: int = 20) -> Distribution | None:
    """Return how the field's values are spread over the runs of the query; None where none has a value."""
    column = [row[0] for _, row in cells(query, [_field(name)])]
    numbers = [cell for cell in column if isinstance(cell, float)]
    texts = Counter(cell for cell in column if isinstance(cell, str))
    if not numbers and not texts:
        return None
    counts, edges = np.histogram(numbers, bins) if numbers else (np.zeros(0, int), np.zeros(0))
    common = sorted(texts.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_TEXTS]
    num_texts = texts.total()
    return Distribution(edges.tolist(), counts.tolist(), common, num_texts, len(column) - len(numbers) - num_texts)


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
    series = (
        Series.objects.filter(run_id__in=[key for key, *_ in newest]).order_by("name").values_list("name", flat=True)
    )
    for one in series.distinct():
        found |= {name: ColumnName(name, "number") for word in FIGURES if (name := f"{SUMMARY}{one}.{word}")}
    matching = (name for key, name in found.items() if part.lower() in key.lower())
    return [name for name, _ in zip(matching, range(limit), strict=False)]


def _leaves(document: Any, prefix: str = "") -> Iterator[tuple[str, Cell]]:
    for key, value in document.items():
        if not key or set('."\\') & set(key):
            continue  # no path leads there
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.") if prefix.count(".") < MAX_DEPTH else ()
        elif (cell := _plain(value)) is not None:
            yield f"{prefix}{key}", cell
