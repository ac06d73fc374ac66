"""``/runs/{id}/series`` and its points, and the points of many runs."""

from typing import Any, Literal

from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Field, Query, Schema

from runs.api.auth import Resource, actor
from runs.api.metrics.columns import CONTENT_TYPE, MAX_NAMES, MAX_RUNS, DataQuery, answer
from runs.api.paging import Page
from runs.api.schemas import schema_of
from runs.records.points import read
from runs.rights.access import Permission, get_run, get_runs
from runs.rights.access.operations import operation, thing
from trainyard.contract.answers import runs as answers

router = Resource(tags=["series"])

Number = float | Literal["NaN", "Infinity", "-Infinity"]


class SeriesItem(schema_of(answers.Series)):  # type: ignore[misc]  # the fields are those of the contract
    """A series."""

    last: Number | None


class ManySeriesItem(SeriesItem):
    run: str


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


@router.get("/runs/{run_id}/series", response=Page[SeriesItem], summary="Series of a run")
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
    return answer(request, get_runs(actor(request), [run_id]), query)


@router.get("/series", response=Page[ManySeriesItem], summary="Series of many runs")
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
    return answer(request, runs, query, is_many=True)
