"""The table of runs as a file: the same runs in the same order, with the columns that are shown; where the address
names none, with the fields of all specs."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import content_disposition_header

from dashboard.pages.runs.address import Asked, Listed, asked_of, columns_of, runs_of, sorts_of
from dashboard.pages.shared.chart_runs import fields_of
from dashboard.pages.shared.frame import page, refusal
from runs.finding import columns as finding
from runs.finding.columns import TIMES
from runs.finding.fields import Cell, read_field
from runs.finding.language import FilterError, FilterText
from runs.models import Run
from runs.presenting.audit_rows import FORMULA
from runs.presenting.runs import run_documents
from runs.rights.access import Permission
from runs.rights.access.operations import lists

MAX_RUNS = 5000
MAX_FIELDS = 2000  # of all specs together; a spreadsheet has 16,384 columns
MAX_COLUMNS = 200
RUNS_AT_ONCE = 200
FACTS = ("id", "name", "status", "project", "cluster", "step", "created_by", "created_at", "started_at", "ended_at")
METRICS = ("train/loss", "val/loss")
STATISTICS = ("last", "min", "max")


@page(get=lists(Permission.RUNS_READ))
def export(request: HttpRequest) -> HttpResponse:
    asked = asked_of(request)
    keys = Listed(runs_of(request, asked), sorts_of(asked)).keys(MAX_RUNS + 1)
    some = keys[:MAX_RUNS]
    text = shown_as_csv(some, fields_among(asked)) if asked["columns"] else as_csv(some)
    return _saved(text, "text/csv; charset=utf-8", "csv", is_cut=len(keys) > MAX_RUNS)


@page(get=lists(Permission.RUNS_READ))
def parquet(request: HttpRequest) -> HttpResponse:
    asked = asked_of(request)
    keys = Listed(runs_of(request, asked), sorts_of(asked)).keys(MAX_RUNS + 1)
    try:
        data = shown_as_parquet(keys[:MAX_RUNS], fields_among(asked))
    except ImportError:
        return refusal(request, 501, "Parquet needs pyarrow, which is not installed on this server. CSV needs nothing.")
    return _saved(data, "application/vnd.apache.parquet", "parquet", is_cut=len(keys) > MAX_RUNS)


def _saved(data: str | bytes, content_type: str, ending: str, *, is_cut: bool) -> HttpResponse:
    name = f"runs-first-{MAX_RUNS}.{ending}" if is_cut else f"runs.{ending}"
    headers = {"Content-Disposition": content_disposition_header(True, name), "Cache-Control": "no-store"}
    return HttpResponse(data, content_type=content_type, headers=headers)


# The columns that are shown.


def fields_among(asked: Asked) -> list[str]:
    """Return those of the shown columns that are fields; a drawing is none, and what is no field is left out."""
    found = []
    for name in dict.fromkeys(one.name for one in columns_of(asked)[:MAX_COLUMNS]):
        with suppress(FilterError):
            read_field(FilterText(name, 0))
            found.append(name)
    return found


def shown_as_csv(keys: Sequence[str], names: Sequence[str]) -> str:
    """Return a line for each of the runs; times are ISO 8601."""
    rows = ([key, *(_iso(cell) if name in TIMES else cell for name, cell in cells.items())]
            for key, cells in _shown(keys, names))  # fmt: skip
    return csv_text(["id", *_heads(names)], rows)


def shown_as_parquet(keys: Sequence[str], names: Sequence[str]) -> bytes:
    """Return the same as Parquet: numbers, times or texts; a column with texts and numbers is one of texts. Raises
    ImportError without pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows, utc = list(_shown(keys, names)), pa.timestamp("ms", "UTC")
    columns: dict[str, Any] = {"id": [key for key, _ in rows]}
    for name in _heads(names):
        cells = [row[name] for _, row in rows]
        if name in TIMES:
            columns[name] = pa.array([None if one is None else int(float(one) * 1000) for one in cells], utc)
        elif any(isinstance(one, str) for one in cells):
            columns[name] = pa.array([one if one is None else str(one) for one in cells], pa.string())
        else:
            columns[name] = pa.array(cells, pa.float64())
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def _heads(names: Sequence[str]) -> list[str]:
    return ["name", *(name for name in names if name != "name")]


def _shown(keys: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, dict[str, Cell]]]:
    for some in _in_parts(keys):
        found = finding.values(some, _heads(names))
        yield from ((run.pk, found[run.pk]) for run in some)


def _iso(cell: Cell) -> str | None:
    return None if cell is None else datetime.fromtimestamp(float(cell), UTC).isoformat()


# All fields of all specs.


def as_csv(keys: Sequence[str]) -> str:
    paths = _paths(keys)
    own = [*FACTS, "tags", *(f"{name} {statistic}" for name in METRICS for statistic in STATISTICS)]
    rows = (_cells(document, paths) for some in _in_parts(keys) for document in run_documents(some))
    return csv_text([*own, *(f"spec {path}" if path in own else path for path in paths)], rows)


def csv_text(head: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(_text, row) for row in chain([head], rows))
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
