"""``/runs/{id}/series`` and its points, and the points of many runs."""

import json
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Field, Query, Schema
from ninja.errors import HttpError

from runs.api.auth import Resource, actor
from runs.api.metrics.columns import CONTENT_TYPE, MAX_NAMES, MAX_POINTS, MAX_RUNS, CurveQuestion, answer
from runs.api.schemas import schema_of
from runs.records.points import read
from runs.rights.access import Permission, get_run, get_runs
from runs.rights.access.operations import operation, thing
from trainyard.contract.answers import runs as answers


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


router = Resource(tags=["series"])

Number = float | Literal["NaN", "Infinity", "-Infinity"]
Step = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]  # a float would not hold each of them
Bound = Annotated[Step | Annotated[float, Field(allow_inf_nan=False)], Field(union_mode="left_to_right")]


class SeriesItem(schema_of(answers.Series)):  # type: ignore[misc]  # the fields are those of the contract
    """A series."""

    last: Number | None


class SeriesList(Schema):
    items: list[SeriesItem]
    next: str | None = None


class ManySeriesItem(SeriesItem):
    run: str


class ManySeriesList(Schema):
    items: list[ManySeriesItem]
    next: str | None = None


class SeriesColumns(Schema):
    """Equally long columns: ``value`` where kind is raw; min, max, mean, last and count where it is buckets."""

    name: str
    labels: dict[str, str]
    attempt: int
    kind: Literal["raw", "buckets"]
    superseded: bool | None = Field(default=None, description="true: a newer attempt trained these steps again")
    step: list[int]
    time: list[float] = Field(description="Unix seconds")
    value: list[Number] | None = None
    min: list[Number] | None = None
    max: list[Number] | None = None
    mean: list[Number] | None = None
    last: list[Number] | None = None
    count: list[int] | None = None
    num_nan: list[int] | None = Field(default=None, description="of these, how many are NaN; absent where none is")


class SeriesData(Schema):
    cursor: int = Field(description="pass it as since= to the run's WebSocket, and nothing is missed")
    origin: float | None = Field(default=None, description="with x=relative: when the run started, in Unix seconds")
    series: list[SeriesColumns]


class ManyColumns(SeriesColumns):
    run: str


class ManyData(Schema):
    cursors: dict[str, int]
    origins: dict[str, float] | None = None
    series: list[ManyColumns]


class DataQuery(Schema):
    name: list[str] = Field(default=[], max_length=MAX_NAMES, description="may repeat; absent: every series")
    labels: str = Field(default="", description='series with at least these labels, as JSON: {"gpu": "0"}')
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
    attempts: Literal["newest", "all"] = Field(default="newest", description="all: what a restart trained again, too")
    format: Literal["json", "columns"] | None = Field(default=None, description="absent: as Accept says")

    def question(self) -> CurveQuestion:
        labels = labels_in(self.labels)
        return CurveQuestion(self.name, labels, self.x, self.start, self.end, self.points, self.attempts)


class RunsQuery(Schema):
    run: list[str] = Field(min_length=1, max_length=MAX_RUNS, description="may repeat")


class ListQuery(RunsQuery):
    names_only: bool = Field(default=False, description="each item has run, name and labels alone: quick for very many")
    match: str = Field(default="", max_length=200, description="with names_only: what the name has, in any case")
    name: list[str] = Field(default=[], max_length=MAX_NAMES, description="with names_only: those alone; may repeat")
    limit: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="with names_only: at most so many; of more, each name once with labels null, train/ first",
    )


class ManyQuery(RunsQuery, DataQuery):
    """Points of series of many runs."""


_columns = {"content": {CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
_openapi = {"responses": {200: _columns, 304: {"description": "What If-None-Match names is still the answer"}}}


@router.get("/runs/{run_id}/series", response=SeriesList, summary="Series of a run")
@operation(thing(Permission.RUNS_READ))
def list_series(request: HttpRequest, run_id: str) -> Any:
    """Points that a newer attempt hides do not count."""
    return {"items": read.series_list(get_run(request, run_id).pk), "next": None}


@router.get(
    "/runs/{run_id}/series/data",
    response=SeriesData,
    exclude_none=True,
    openapi_extra=_openapi,
    summary="Points of series",
)
@operation(thing(Permission.RUNS_READ))
def series_data(request: HttpRequest, run_id: str, query: Query[DataQuery]) -> HttpResponse:
    """Columns of equal length. Times are Unix seconds; `origin` is the start of the run. After a restart the newest
    attempt's points count; hidden ones have `superseded`. A bucket stands at the step and time of its last point; NaN
    is counted in `num_nan` alone. The `ETag` gets 304 while no point came. At most 1,000,000 points or buckets.
    `format=columns` is binary. Example: `?name=train/loss&x=step&points=1500`"""
    return answer(request, get_runs(actor(request), [run_id]), query.question(), form=query.format)


@router.get("/series", response=ManySeriesList, summary="Series of many runs")
@operation(thing(Permission.RUNS_READ))
def list_many_series(request: HttpRequest, query: Query[ListQuery]) -> Any:
    """At most 100 runs. 404 if you may not see one of them. Example: `?run=$RUN&run=$OTHER`"""
    runs = [one.pk for one in get_runs(actor(request), query.run)]
    if query.names_only:
        return JsonResponse({"items": read.names_of(runs, query.match, query.name, query.limit), "next": None})
    return {"items": read.series_lists(runs), "next": None}


@router.get(
    "/series/data",
    response=ManyData,
    exclude_none=True,
    openapi_extra=_openapi,
    summary="Points of series of many runs",
)
@operation(thing(Permission.RUNS_READ))
def many_series_data(request: HttpRequest, query: Query[ManyQuery]) -> HttpResponse:
    """At most 100 runs. Each series has its `run`; `cursors` and `origins` are maps by run. Example:
    `?run=$RUN&name=train/loss&points=1500`"""
    runs = get_runs(actor(request), query.run)
    return answer(request, runs, query.question(), form=query.format, is_many=True)
