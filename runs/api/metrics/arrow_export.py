"""``/runs/{id}/series.arrow`` and ``/series.arrow``: every point as an Arrow IPC stream, sent while it is read.

A row is a stretch of one series, with its steps, times and values as lists: names are not repeated for each point. In
Parquet, which packs them, a row is a point.
"""

import io
import json
from collections.abc import Generator, Iterable, Sequence
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import Any, Literal

import nanoarrow as na
import numpy as np
from django.http import HttpRequest, StreamingHttpResponse
from nanoarrow.ipc import StreamWriter
from ninja import Field, Query
from ninja.errors import HttpError
from numpy.typing import NDArray

from runs.api.auth import Resource
from runs.api.metrics.columns import SeriesQuery
from runs.api.metrics.csv_export import ManyCsvQuery, saved_as, streamed
from runs.records.points.read import Curve
from runs.rights.access import Permission
from runs.rights.access.operations import operation, thing

router = Resource(tags=["series"])

CONTENT_TYPE, PARQUET_TYPE = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
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


class ArrowQuery(SeriesQuery):
    format: Literal["arrow", "parquet"] = Field(default="arrow", description="parquet: a file, a row for each point")


class ManyArrowQuery(ManyCsvQuery, ArrowQuery):
    """Points of many runs."""


@router.get("/runs/{run_id}/series.arrow", summary="Every point as an Arrow stream")
@operation(thing(Permission.RUNS_READ))
def series_arrow(request: HttpRequest, run_id: str, query: Query[ArrowQuery]) -> StreamingHttpResponse:
    """An IPC stream of run, name, labels (JSON), attempt, superseded, and lists of step, time and value: a row is a
    stretch of a series. Example: `?name=train/loss`"""
    return _answer(request, [run_id], query, run_id)


@router.get("/series.arrow", summary="Every point of many runs as an Arrow stream")
@operation(thing(Permission.RUNS_READ))
def many_series_arrow(request: HttpRequest, query: Query[ManyArrowQuery]) -> StreamingHttpResponse:
    """At most 100 runs. Example: `?run=$RUN&run=$OTHER&name=train/loss`"""
    return _answer(request, query.run, query, f"{len(query.run)}-runs")


def _answer(request: HttpRequest, run_ids: list[str], query: ArrowQuery, title: str) -> StreamingHttpResponse:
    is_file = query.format == "parquet"
    if is_file and not find_spec("pyarrow"):
        raise HttpError(501, "Parquet needs pyarrow, which is not installed on this server. CSV needs nothing.")
    write, kind = (parquet_parts, PARQUET_TYPE) if is_file else (parts, CONTENT_TYPE)
    response = streamed(request, run_ids, query, write, kind)
    if is_file:
        response["Content-Disposition"] = saved_as(title, query, "parquet")
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


def parquet_parts(curves: Iterable[Curve]) -> Generator[bytes]:
    """Write the columns of the stream as a Parquet file, and yield it in parts of at most BYTES_AT_ONCE."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    kinds = [pa.string()] * 3 + [pa.int64(), pa.bool_(), pa.int64(), pa.float64(), pa.float64()]
    schema = pa.schema(list(zip(COLUMNS, kinds, strict=True)))
    with TemporaryFile() as out:
        with ParquetWriter(out, schema) as writer:
            for curve in curves:
                cells = (curve.run_id, curve.name, _labels(curve), curve.attempt, curve.is_superseded)
                columns = [curve.columns[name] for name in ("step", "time", "value")]
                same = [pa.repeat(pa.scalar(*one), columns[0].size) for one in zip(cells, kinds, strict=False)]
                writer.write_table(pa.table([*same, *map(pa.array, columns, kinds[5:])], schema=schema))
        out.seek(0)
        while part := out.read(BYTES_AT_ONCE):
            yield part


def _labels(curve: Curve) -> str:
    return json.dumps(curve.labels, ensure_ascii=False, sort_keys=True) if curve.labels else "{}"


def _row(curve: Curve) -> Any:
    cells = [
        *map(_text, (curve.run_id, curve.name, _labels(curve))),
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
