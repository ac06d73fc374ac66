"""``/runs/{id}/series`` and its points."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Router, Schema
from ninja.errors import HttpError

from runs.access import get_run
from runs.api.auth import actor
from runs.metrics import read

router = Router(tags=["series"])

MAX_NAMES = 200
Number = float | Literal["NaN", "Infinity", "-Infinity"]


class SeriesItem(Schema):
    name: str
    labels: dict[str, str]
    count: int
    first_step: int | None
    last_step: int | None
    last: Number | None
    min: float | None = Field(description="over finite values")
    max: float | None


class SeriesList(Schema):
    items: list[SeriesItem]
    next: str | None = None


class SeriesColumns(Schema):
    """Equally long columns: ``value`` where kind is raw; min, max, mean, last and count where it is buckets."""

    name: str
    labels: dict[str, str]
    attempt: int
    kind: Literal["raw", "buckets"]
    step: list[int]
    time: list[float] = Field(description="Unix seconds")
    value: list[Number] | None = None
    min: list[Number] | None = None
    max: list[Number] | None = None
    mean: list[Number] | None = None
    last: list[Number] | None = None
    count: list[int] | None = None


class SeriesData(Schema):
    cursor: int = Field(description="pass it as since= to the run's WebSocket, and nothing is missed")
    series: list[SeriesColumns]


class DataQuery(Schema):
    name: list[str] = Field(default=[], max_length=MAX_NAMES, description="may repeat; absent: every series")
    labels: str = Field(default="", description='series with at least these labels, as JSON: {"gpu": "0"}')
    x: Literal["step", "time"] = "step"
    start: float | None = Field(default=None, alias="from", allow_inf_nan=False)
    end: float | None = Field(default=None, alias="to", allow_inf_nan=False)
    points: Annotated[int, Field(ge=2, le=10_000)] = 1500


@router.get("/runs/{run_id}/series", response=SeriesList, summary="Series of a run")
def list_series(request: HttpRequest, run_id: str) -> Any:
    run = get_run(actor(request), run_id)
    return {"items": read.series_list(run.pk), "next": None}


@router.get("/runs/{run_id}/series/data", response=SeriesData, exclude_none=True, summary="Points of series")
def series_data(request: HttpRequest, run_id: str, query: Query[DataQuery]) -> HttpResponse:
    run = get_run(actor(request), run_id)
    answer = read.series_data(run.pk, query.name, _labels(query.labels), query.x, query.start, query.end, query.points)
    # Columns of numbers that are ours: checking each of them against the schema again would cost more than reading.
    return HttpResponse(json.dumps(answer, separators=(",", ":"), allow_nan=False), content_type="application/json")


def _labels(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        labels = json.loads(text)
    except ValueError as error:
        raise HttpError(422, f"labels: {error}") from error
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise HttpError(422, 'labels: a JSON object of texts is expected, like {"gpu": "0"}')
    return labels
