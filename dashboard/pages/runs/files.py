"""The table of runs as a file: the same runs in the same order, with their specs' fields as columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header

from dashboard.pages.runs.address import asked_of, runs_of, sorts_of
from dashboard.pages.runs.listed import Listed
from dashboard.pages.shared.chart_runs import fields_of
from dashboard.pages.shared.frame import page, refusal
from runs.finding.language import FilterError
from runs.models import Run
from runs.presenting.listing import BadQuery
from runs.presenting.runs import run_documents
from runs.rights.access import Permission
from runs.rights.access.operations import lists

MAX_RUNS = 5000
MAX_FIELDS = 2000  # of all specs together; a spreadsheet has 16,384 columns
RUNS_AT_ONCE = 200
FACTS = ("id", "name", "status", "project", "cluster", "step", "created_by", "created_at", "started_at", "ended_at")
METRICS = ("train/loss", "val/loss")
STATISTICS = ("last", "min", "max")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@page(get=lists(Permission.RUNS_READ))
def export(request: HttpRequest) -> HttpResponse:
    """All runs that the table lists, as CSV."""
    asked = asked_of(request)
    try:
        keys = Listed(runs_of(request, asked), sorts_of(asked)).keys(MAX_RUNS + 1)
    except (BadQuery, FilterError) as error:
        return refusal(request, 400, str(error))
    answer = HttpResponse(as_csv(keys[:MAX_RUNS]), content_type="text/csv; charset=utf-8")
    name = f"runs-first-{MAX_RUNS}.csv" if len(keys) > MAX_RUNS else "runs.csv"
    answer["Content-Disposition"] = content_disposition_header(True, name)
    answer["Cache-Control"] = "no-store"
    return answer


def as_csv(keys: Sequence[str]) -> str:
    """Return a line for each of the runs."""
    paths = _paths(keys)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    metrics = [f"{name} {statistic}" for name in METRICS for statistic in STATISTICS]
    own = [*FACTS, "tags", *metrics]
    writer.writerow([*own, *(_text(f"spec {path}" if path in own else path) for path in paths)])
    for some in _in_parts(keys):
        for document in run_documents(some):
            writer.writerow([_text(cell) for cell in _cells(document, paths)])
    return out.getvalue()


def _paths(keys: Sequence[str]) -> list[str]:
    """The first MAX_FIELDS of the fields that any of the specs has."""
    found: dict[str, None] = {}
    for some in _in_parts(keys):
        found.update(dict.fromkeys(path for run in some for path in fields_of(run.spec)))
        if len(found) >= MAX_FIELDS:
            break
    return list(found)[:MAX_FIELDS]


def _in_parts(keys: Sequence[str]) -> Iterator[Sequence[Run]]:
    runs = Run.objects.select_related("project", "cluster", "created_by")
    for first in range(0, len(keys), RUNS_AT_ONCE):
        some = keys[first : first + RUNS_AT_ONCE]
        known = runs.in_bulk(some)
        yield [known[key] for key in some if key in known]


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
