"""``/runs/{id}/series.arrow`` and ``/series.arrow``: every point as an Arrow IPC stream, sent while it is read.

A row is a stretch of one series, with its steps, times and values as lists: names are not repeated for each point.
"""

import io
import json
from collections.abc import Generator, Iterable, Sequence
from typing import Any

import nanoarrow as na
import numpy as np
from django.http import HttpRequest, StreamingHttpResponse
from nanoarrow.ipc import StreamWriter
from ninja import Query
from numpy.typing import NDArray

from runs.api.auth import Resource, actor
from runs.api.metrics.csv_export import CsvQuery, ManyCsvQuery, curves
from runs.api.metrics.labels import labels_in
from runs.api.streaming import LastingRight, stream
from runs.models import Run
from runs.records.points.read import Curve
from runs.rights.access import Permission, get_run, get_runs
from runs.rights.access.operations import operation, thing

router = Resource(tags=["series"])

CONTENT_TYPE = "application/vnd.apache.arrow.stream"
BYTES_AT_ONCE = 1024 * 1024
COLUMNS = {
    "run": na.string(),
    "name": na.string(),
    "labels": na.string(),  # a JSON object
    "attempt": na.int64(),
    "superseded": na.int8(),  # 1: a newer attempt trained these steps again
    "step": na.large_list(na.int64()),
    "time": na.large_list(na.float64()),  # Unix seconds
    "value": na.large_list(na.float64()),
}
SCHEMA = na.struct(COLUMNS)


@router.get("/runs/{run_id}/series.arrow", summary="Every point as an Arrow stream")
@operation(thing(Permission.RUNS_READ))
def series_arrow(request: HttpRequest, run_id: str, query: Query[CsvQuery]) -> StreamingHttpResponse:
    """An IPC stream of run, name, labels (JSON), attempt, superseded, and lists of step, time and value: a row is a
    stretch of a series. Example: `?name=train/loss`"""
    right = LastingRight(request, lambda user: get_run(user, run_id))
    return _answer(request, [get_run(request, run_id)], right, query)


@router.get("/series.arrow", summary="Every point of many runs as an Arrow stream")
@operation(thing(Permission.RUNS_READ))
def many_series_arrow(request: HttpRequest, query: Query[ManyCsvQuery]) -> StreamingHttpResponse:
    """At most 100 runs. Example: `?run=$RUN&run=$OTHER&name=train/loss`"""
    right = LastingRight(request, lambda user: get_runs(user, query.run))
    return _answer(request, get_runs(actor(request), query.run), right, query)


def _answer(request: HttpRequest, runs: Sequence[Run], right: LastingRight, query: CsvQuery) -> StreamingHttpResponse:
    response = stream(request, parts(curves(runs, query, labels_in(query.labels))), right, CONTENT_TYPE)
    response["Cache-Control"] = "private, no-cache"
    return response


def parts(curves: Iterable[Curve]) -> Generator[bytes]:
    """Yield the stream in parts of about BYTES_AT_ONCE."""
    out = io.BytesIO()
    with StreamWriter.from_writable(out) as writer:
        writer.write_stream(na.c_array_stream(na.ArrayStream([], SCHEMA)))  # a run without points has columns, too
        for curve in curves:
            writer.write_array(_row(curve))
            if out.tell() >= BYTES_AT_ONCE:
                yield out.getvalue()
                out.seek(0)
                out.truncate()
    yield out.getvalue()


def _row(curve: Curve) -> Any:
    labels = json.dumps(curve.labels, ensure_ascii=False, sort_keys=True) if curve.labels else "{}"
    cells = [
        *map(_text, (curve.run_id, curve.name, labels)),
        _buffers(na.int64(), 1, [None, np.array([curve.attempt], np.int64)]),
        _buffers(na.int8(), 1, [None, np.array([curve.is_superseded], np.int8)]),
        _list(na.int64(), curve.columns["step"].astype(np.int64, copy=False)),
        _list(na.float64(), curve.columns["time"]),
        _list(na.float64(), curve.columns["value"]),
    ]
    return _buffers(SCHEMA, 1, [None], cells)


def _text(text: str) -> Any:
    data = text.encode()
    return _buffers(na.string(), 1, [None, np.array([0, len(data)], np.int32), data])


def _list(kind: Any, column: NDArray[Any]) -> Any:
    values = _buffers(kind, column.size, [None, np.ascontiguousarray(column)])
    return _buffers(na.large_list(kind), 1, [None, np.array([0, column.size], np.int64)], [values])


def _buffers(kind: Any, length: int, buffers: Sequence[Any], children: Sequence[Any] = ()) -> Any:
    return na.c_array_from_buffers(kind, length, buffers, null_count=0, children=children)
