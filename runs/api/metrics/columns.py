"""Points of series as an answer, 304 while nothing came: JSON, and columns that need no parsing (docs/rest.md)."""

import hashlib
import json
import struct
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from ninja import Field, Schema
from ninja.errors import HttpError
from numpy.typing import NDArray
from pydantic_core import to_json

import trainyard
from runs.models import Run
from runs.records.metrics.progress import cursors_of
from runs.records.points.read import Curve, curves
from trainyard.contract.base import JsonObject

CONTENT_TYPE = "application/vnd.trainyard.columns"
MAGIC = b"TYCO"
VERSION = 1
PREFIX = struct.Struct("<4sII")  # magic, version, length of the header
ALIGNED = 8
EXACT = 2**53  # up to here a float64 holds every integer


def as_json(head: JsonObject, curves: Sequence[Curve], *, is_many: bool) -> bytes:
    """Return the answer as JSON. ``head`` is what stands before the series.

    pydantic writes a float in the fewest digits that read back as the same, as json.dumps does, in an eighth of the
    time; series by series, so that the numbers of only one are Python's at a time.
    """
    parts = [
        to_json(
            {**described(curve, is_many), **{name: column.tolist() for name, column in curve.columns.items()}},
            inf_nan_mode="strings",
        )
        for curve in curves
    ]
    return b"".join((to_json(head)[:-1], b',"series":[', b",".join(parts), b"]}"))


def as_columns(head: JsonObject, curves: Sequence[Curve], *, is_many: bool) -> bytes:
    """Return the answer as magic, version, JSON header and columns; one that several series share is there once."""
    layout = _Layout()
    series = [
        {**described(curve, is_many), "columns": {name: layout.place(column) for name, column in curve.columns.items()}}
        for curve in curves
    ]
    header = json.dumps({**head, "series": series}, separators=(",", ":")).encode()
    header += b" " * (-(PREFIX.size + len(header)) % ALIGNED)
    return b"".join((PREFIX.pack(MAGIC, VERSION, len(header)), header, *(column.data for column in layout.columns)))


def described(curve: Curve, is_many: bool) -> JsonObject:
    """Return the fields beside the columns of a curve."""
    known: JsonObject = {"name": curve.name, "labels": curve.labels, "attempt": curve.attempt, "kind": curve.kind}
    if curve.is_superseded:
        known["superseded"] = True
    return {"run": curve.run_id, **known} if is_many else known


class _Layout:
    """Positions of the columns, counted from the end of the header."""

    def __init__(self) -> None:
        self.columns: list[NDArray[Any]] = []
        self._places: dict[int, JsonObject] = {}
        self._seen: list[NDArray[Any]] = []  # held, so that no other column gets the id of one that is gone
        self._size = 0

    def place(self, column: NDArray[Any]) -> JsonObject:
        known = self._places.get(id(column))
        if known is not None:
            return known
        wire = _wire(column)
        dtype = "<i8" if wire.dtype.kind == "i" else "<f8"
        place = {"dtype": dtype, "offset": self._size, "length": wire.size}
        self._size += wire.nbytes
        self.columns.append(wire)
        self._seen.append(column)
        self._places[id(column)] = place
        return place


def _wire(column: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers travel as float64, which JavaScript draws without a conversion, where it holds each of them."""
    if column.dtype.kind == "i" and (column.size == 0 or (column.min() >= -EXACT and column.max() <= EXACT)):
        column = column.astype(np.float64)
    wire = np.ascontiguousarray(column)
    return wire if sys.byteorder == "little" else wire.astype(wire.dtype.newbyteorder("<"))


MAX_NAMES = 200
MAX_RUNS = 100
MAX_POINTS = 10_000  # of a series
MAX_ANSWER_POINTS = 1_000_000  # of all series: buckets of so many are 56 MB

Form = Literal["json", "columns"]
Axis = Literal["step", "time"]
Step = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]  # a float would not hold each of them
Bound = Annotated[Step | Annotated[float, Field(allow_inf_nan=False)], Field(union_mode="left_to_right")]


def labels_in(text: str) -> dict[str, str]:
    """Return the labels. Raises HttpError 422."""
    if not text:
        return {}
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HttpError(422, f"labels: {error}") from error
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise HttpError(422, 'labels: a JSON object of texts is expected, like {"gpu": "0"}')
    return labels


class SeriesQuery(Schema):
    name: list[str] = Field(default=[], max_length=MAX_NAMES, description="may repeat; absent: every series")
    labels: str = Field(default="", description='series with at least these labels, as JSON: {"gpu": "0"}')
    attempts: Literal["newest", "all"] = Field(default="newest", description="all: what a restart trained again, too")


class DataQuery(SeriesQuery):
    x: Literal["step", "time", "relative"] = Field(
        default="step", description="what from and to are: steps, Unix seconds, or seconds since the run started"
    )
    start: Bound | None = Field(default=None, alias="from")
    end: Bound | None = Field(default=None, alias="to")
    points: int = Field(
        default=1500,
        ge=2,
        le=MAX_POINTS,
        description="of a series with more the answer has buckets, which cover all: for each point ask for a smaller "
        "window of from and to",
    )
    format: Literal["json", "columns"] | None = Field(default=None, description="absent: as Accept says")

    def window(self, origin: float) -> tuple[float | None, float | None]:
        """Return from and to on the axis of a run that began at ``origin``."""
        shift = origin if self.x == "relative" else 0
        start, end = (bound if bound is None else bound + shift for bound in (self.start, self.end))
        return start, end


def answer(request: HttpRequest, runs: Sequence[Run], asked: DataQuery, *, is_many: bool = False) -> HttpResponse:
    """Answer with the points. Raises TooManyPoints, and HttpError for labels that are none."""
    labels = labels_in(asked.labels)
    form: Form = asked.format or (
        "columns" if request.accepts(CONTENT_TYPE) and not request.accepts("text/html") else "json"
    )
    ids = [run.pk for run in runs]
    origins = {run.pk: origin_of(run) for run in runs} if asked.x == "relative" else {}
    if known := parse_etags(request.headers.get("If-None-Match", "")):
        tag = _tag(asked, form, cursors_of(ids), origins)
        if tag in known:
            return _with_headers(HttpResponseNotModified(), tag)
    windows = {run_id: asked.window(origins.get(run_id, 0.0)) for run_id in ids}
    axis: Axis = "step" if asked.x == "step" else "time"
    cursors, found = curves(windows, asked.name, labels, axis, asked.points, asked.attempts, at_most=MAX_ANSWER_POINTS)
    head: JsonObject = {"cursors": cursors} if is_many else {"cursor": cursors[ids[0]]}
    if origins:
        head |= {"origins": origins} if is_many else {"origin": origins[ids[0]]}
    write, kind = (as_columns, CONTENT_TYPE) if form == "columns" else (as_json, "application/json")
    response = HttpResponse(write(head, found, is_many=is_many), content_type=kind)
    return _with_headers(response, _tag(asked, form, cursors, origins))


def origin_of(run: Run) -> float:
    """Return when the run started, in Unix seconds; when it was submitted, where it has not."""
    return (run.started_at or run.created_at).timestamp()


def _tag(asked: DataQuery, form: Form, cursors: dict[str, int], origins: dict[str, float]) -> str:
    """Return the ETag of all that the answer depends on. Weak: after a compaction a mean's last bit may differ."""
    depends_on = [trainyard.__version__, VERSION, form, asked.dict(), cursors, origins]
    return f'W/"{hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:32]}"'


def _with_headers(response: HttpResponse, tag: str) -> HttpResponse:
    """Let the browser keep the answer, and ask each time whether it still is the one."""
    response["ETag"] = tag
    response["Cache-Control"] = "private, no-cache"
    patch_vary_headers(response, ("Accept", "Authorization", "Cookie"))
    return response
