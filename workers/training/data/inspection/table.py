"""What a table holds: its columns with their statistics, its first rows, and what is learnt of it."""

from __future__ import annotations

import math
from typing import Any, cast

from trainyard.contract.inspections import Cell, ClassFacts, ColumnFacts, DatasetFacts
from workers.training.data.inspection.request import InspectionRequest
from workers.training.data.problems import DataProblem
from workers.training.data.sources.files import Files
from workers.training.data.tabular.columns import Column, look_at
from workers.training.data.tabular.features import read_features
from workers.training.data.tabular.table_parts import Table
from workers.training.data.tabular.tables import open_columns, open_table
from workers.training.data.tabular.targets import MAX_CLASSES, Targets, read_targets

SAMPLED_ROWS = 100_000
SHOWN_ROWS = 30
SHOWN_COLUMNS = 50  # of the rows
MAX_COLUMNS = 300
MAX_CLASSES_SHOWN = 200
MAX_DISTINCT = 1_000  # that are counted
MAX_CHARS = 60
MAX_NAME_CHARS = 200  # as many as a spec's target may have


def describe_table(files: Files, request: InspectionRequest) -> DatasetFacts:
    """Return the facts of a table. Without a target they do not name what is learnt."""
    source, target = request.source, request.target
    table = open_table(source, files, target) if target else open_columns(source, files)
    columns = look_at(table, [MAX_CLASSES if name == target else MAX_DISTINCT for name in table.names], SAMPLED_ROWS)
    num_sampled = columns[0].num_rows
    if not num_sampled:
        raise DataProblem(f"{files.location} has no rows below its columns' names")
    is_sample = num_sampled >= SAMPLED_ROWS
    learnt: DatasetFacts = {}
    if target:
        place = table.names.index(target)
        others = [*columns[:place], *columns[place + 1 :]]
        if not (is_sample and _has_one_value(columns[place])):  # the rows may be in the order of their classes
            learnt = _learnt(read_targets(table, columns[place], files.location), others, files.location)
        if len(columns) > SHOWN_COLUMNS:  # the target is shown, however many there are
            columns = [columns[place], *others]
    return {
        "kind": "table",
        "num_rows": table.count_rows() if is_sample else num_sampled,
        "num_columns": len(columns),
        "columns": [_column(column) for column in columns[:MAX_COLUMNS]],
        "rows": _first_rows(table, [column.name for column in columns]),
        "is_sample": is_sample,
        "num_sampled": num_sampled if is_sample else None,
        "target": target or None,
        **learnt,
    }


def _learnt(targets: Targets, others: list[Column], location: str) -> DatasetFacts:
    counted = zip(targets.classes, targets.class_counts, strict=False)  # a quantity has no classes
    classes: list[ClassFacts] = [{"name": name[:MAX_CHARS], "count": count} for name, count in counted]
    return {
        "num_features": read_features(others, location).width,
        "num_classes": len(targets.classes),
        "classes": classes[:MAX_CLASSES_SHOWN],
    }


def _has_one_value(column: Column) -> bool:
    counts = column.words if column.is_text else column.numbers
    return counts is not None and len(counts) == 1


def _column(column: Column) -> ColumnFacts:
    """Return the facts of a column, without those that its kind does not have."""
    counts = column.words if column.is_text else column.numbers
    described: dict[str, Cell | list[Cell]] = {
        "name": column.name[:MAX_NAME_CHARS],
        "type": _type(column),
        "missing": column.num_missing,
        "num_distinct": None if counts is None else len(counts),
        "examples": [_shown(value) for value in column.examples],
    }
    if column.num_numbers and not column.is_words:
        described |= {"min": _shown(column.smallest), "max": _shown(column.largest), "mean": _shown(column.mean)}
    return cast(ColumnFacts, {name: value for name, value in described.items() if value is not None})


def _type(column: Column) -> str:
    if column.is_words:
        return "words"
    if not column.num_numbers:
        return "empty"
    return "whole numbers" if column.are_whole else "numbers"


def _first_rows(table: Table, names: list[str]) -> list[list[Cell]]:
    """Return the first rows as they are in the file, their columns in the order of ``names``."""
    places = [table.names.index(name) for name in names[:SHOWN_COLUMNS]]
    for batch in table.batches():
        columns = [batch.columns[place].slice(0, SHOWN_ROWS).to_pylist() for place in places]
        return [[_shown(cell) for cell in row] for row in zip(*columns, strict=True)]
    return []


def _shown(value: Any) -> Cell:
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(f"{value:.6g}")
    shown: Cell = value[:MAX_CHARS] if isinstance(value, str) else value
    return shown
