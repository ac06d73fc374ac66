"""``/runs/{id}/series.csv`` and ``/series.csv``: every point, sent while it is read."""

import csv
import io
import json
from collections.abc import Callable, Generator, Iterable
from typing import Any

import numpy as np
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from ninja import Field, Query

from runs.api.auth import Resource, actor
from runs.api.metrics.columns import MAX_RUNS, SeriesQuery, labels_in
from runs.api.streaming import LastingRight, Part, stream
from runs.presenting.audit_rows import FORMULA
from runs.records.metrics.codec import numbers
from runs.records.points.read import Curve, raw
from runs.rights.access import Permission, get_runs
from runs.rights.access.operations import operation, thing

router = Resource(tags=["series"])

TITLES = ("run", "name", "labels", "attempt", "step", "time", "value")
ROWS_AT_ONCE = 4096


class ManyCsvQuery(SeriesQuery):
    run: list[str] = Field(min_length=1, max_length=MAX_RUNS, description="may repeat")


@router.get("/runs/{run_id}/series.csv", summary="Every point as CSV")
@operation(thing(Permission.RUNS_READ))
def series_csv(request: HttpRequest, run_id: str, query: Query[SeriesQuery]) -> StreamingHttpResponse:
    """Run, name, labels, attempt, step, time and value, exactly. A name that a spreadsheet would read as a formula
    begins with `'`. Example: `?name=train/loss`"""
    return _answer(request, [run_id], query, run_id)


@router.get("/series.csv", summary="Every point of many runs as CSV")
@operation(thing(Permission.RUNS_READ))
def many_series_csv(request: HttpRequest, query: Query[ManyCsvQuery]) -> StreamingHttpResponse:
    """At most 100 runs. Example: `?run=$RUN&run=$OTHER&name=train/loss`"""
    return _answer(request, query.run, query, f"{len(query.run)}-runs")


def _answer(request: HttpRequest, run_ids: list[str], query: SeriesQuery, title: str) -> StreamingHttpResponse:
    response = streamed(request, run_ids, query, lines, "text/csv; charset=utf-8")
    response["Content-Disposition"] = saved_as(title, query, "csv")
    return response


def streamed(
    request: HttpRequest,
    run_ids: list[str],
    query: SeriesQuery,
    write: Callable[[Iterable[Curve]], Generator[Part]],
    content_type: str,
) -> StreamingHttpResponse:
    """Answer with every point of the runs, for as long as the person may read all of them."""
    runs, labels = get_runs(actor(request), run_ids), labels_in(query.labels)
    curves = (curve for run in runs for curve in raw(run.pk, query.name, labels, query.attempts))
    right = LastingRight(request, lambda user: get_runs(user, run_ids))
    response = stream(request, write(curves), right, content_type)
    response["Cache-Control"] = "private, no-cache"
    return response


def saved_as(title: str, query: SeriesQuery, ending: str) -> str:
    """Return the header that has the answer saved as a file, such as ``<run>-train-loss-points.csv``."""
    name = "-".join((title, *query.name[:1], "points")).replace("/", "-")[:120]
    return content_disposition_header(True, f"{name}.{ending}") or "attachment"


def lines(curves: Iterable[Curve]) -> Generator[str]:
    """Yield the file in parts of at most ROWS_AT_ONCE lines."""
    yield _row(TITLES)
    for curve in curves:
        labels = json.dumps(curve.labels, ensure_ascii=False, sort_keys=True) if curve.labels else ""
        head = _row((curve.run_id, _text(curve.name), _text(labels), curve.attempt))[:-1]
        steps, times, values = (curve.columns[name] for name in TITLES[4:])
        for start in range(0, steps.size, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            cells = values[part].tolist() if np.isfinite(values[part]).all() else numbers(values[part])
            rows = zip(steps[part].tolist(), times[part].tolist(), cells, strict=True)
            yield "".join([f"{head},{step},{at},{value}\n" for step, at, value in rows])


def _row(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _text(text: str) -> str:
    """Keep a spreadsheet from running a name as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
