"""``/runs/{id}/series.csv``: every point, sent while it is read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Generator, Iterable
from typing import Any, Literal

import numpy as np
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from ninja import Field, Query, Router, Schema

from runs.access import get_run
from runs.api.auth import actor
from runs.api.labels import labels_in
from runs.api.streaming import stream
from runs.metrics.curves import Curve, raw
from runs.metrics.delta import numbers

router = Router(tags=["series"])

TITLES = ("run", "name", "labels", "attempt", "step", "time", "value")
ROWS_AT_ONCE = 4096
MAX_NAMES = 200
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class CsvQuery(Schema):
    name: list[str] = Field(default=[], max_length=MAX_NAMES, description="may repeat; absent: every series")
    labels: str = Field(default="", description='series with at least these labels, as JSON: {"gpu": "0"}')
    attempts: Literal["newest", "all"] = Field(default="newest", description="all: what a restart trained again, too")


@router.get("/runs/{run_id}/series.csv", summary="Every point as CSV")
def series_csv(request: HttpRequest, run_id: str, query: Query[CsvQuery]) -> StreamingHttpResponse:
    run = get_run(actor(request), run_id)
    curves = raw(run.pk, query.name, labels_in(query.labels), query.attempts)
    response = stream(request, lines(curves), "text/csv; charset=utf-8")
    file_name = "-".join((run.pk, *query.name[:1], "points")).replace("/", "-")[:120]
    response["Content-Disposition"] = content_disposition_header(True, f"{file_name}.csv")
    response["Cache-Control"] = "private, no-cache"
    return response


def lines(curves: Iterable[Curve]) -> Generator[str]:
    """Yield the file in parts of at most ROWS_AT_ONCE lines."""
    yield _row(TITLES)
    for curve in curves:
        labels = json.dumps(curve.labels, ensure_ascii=False, sort_keys=True) if curve.labels else ""
        head = _row((curve.run_id, _text(curve.name), _text(labels), curve.attempt))[:-1]
        steps, times, values = (curve.columns[name] for name in TITLES[4:])
        for start in range(0, steps.size, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            is_finite = np.isfinite(values[part]).all()
            rows = zip(
                steps[part].tolist(),
                times[part].tolist(),
                values[part].tolist() if is_finite else numbers(values[part]),
                strict=True,
            )
            yield "".join([f"{head},{step},{at},{value}\n" for step, at, value in rows])


def _row(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _text(text: str) -> str:
    """Keep a spreadsheet from running a name as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
