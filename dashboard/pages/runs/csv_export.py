"""The table of runs as a file: the same runs in the same order, with their specs' fields as columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from dashboard.pages.shared.chart_runs import fields_of
from runs.models import Run
from runs.presenting.runs import run_documents

MAX_RUNS = 5000
MAX_FIELDS = 2000  # of all specs together; a spreadsheet has 16,384 columns
RUNS_AT_ONCE = 200
FACTS = ("id", "name", "status", "project", "cluster", "step", "created_by", "created_at", "started_at", "ended_at")
METRICS = ("train/loss", "val/loss")
STATISTICS = ("last", "min", "max")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(runs: QuerySet[Run]) -> str:
    """Return a line for each of the first MAX_RUNS runs."""
    paths = _paths(runs)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    metrics = [f"{name} {statistic}" for name in METRICS for statistic in STATISTICS]
    own = [*FACTS, "tags", *metrics]
    writer.writerow([*own, *(_text(f"spec {path}" if path in own else path) for path in paths)])
    for some in _in_parts(runs):
        for document in run_documents(some):
            writer.writerow([_text(cell) for cell in _cells(document, paths)])
    return out.getvalue()


def _paths(runs: QuerySet[Run]) -> list[str]:
    """The first MAX_FIELDS of the fields that any of the specs has."""
    found: dict[str, None] = {}
    for spec in runs.values_list("spec", flat=True)[:MAX_RUNS].iterator(RUNS_AT_ONCE):
        found.update(dict.fromkeys(fields_of(spec)))
        if len(found) >= MAX_FIELDS:
            break
    return list(found)[:MAX_FIELDS]


def _in_parts(runs: QuerySet[Run]) -> Iterator[Sequence[Run]]:
    some = islice(runs.iterator(RUNS_AT_ONCE), MAX_RUNS)
    while part := list(islice(some, RUNS_AT_ONCE)):
        yield part


def _cells(document: Mapping[str, Any], paths: Sequence[str]) -> Iterator[Any]:
    yield from (document[name] for name in FACTS)
    yield " ".join(document["tags"])
    for name in METRICS:
        yield from (document["summary"].get(name, {}).get(statistic) for statistic in STATISTICS)
    fields = fields_of(document["spec"])
    yield from (fields.get(path) for path in paths)


def _text(cell: Any) -> Any:
    """Keep a spreadsheet from running a text as a formula; a number may be negative."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
