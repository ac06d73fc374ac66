"""``/runs/{id}/logs``: lines of all ranks by time, from one end to the other, by place, by what they say, as a file."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Field, Query, Schema

from runs.api.auth import Resource
from runs.api.schemas import schema_of
from runs.api.streaming import LastingRight, text_response
from runs.models import Run
from runs.records.logs import labels as log_labels
from runs.records.logs import patterns as log_patterns
from runs.records.logs import search as log_search
from runs.records.logs import windows as log_windows
from runs.records.logs.levels import CODES
from runs.records.logs.lines import BadLine, Filters, LineId, line_id
from runs.records.logs.read import read_log_text, read_logs
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing

router = Resource(tags=["logs"])
LevelName = Literal["error", "warning", "info", "debug", "none", ""]  # none, or empty: of lines that say none


class StreamName(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    BUILD = "build"


class Line(Schema):
    id: str = Field(description="names the line for ever")
    rank: int
    stream: str
    attempt: int
    time: float = Field(description="Unix seconds at the rank")
    level: str = Field(description="error, warning, info, debug, or empty where the line says none")
    text: str


class ListedLine(Line):
    index: int = Field(description="its place, from 0, among the lines that fit the filters")
    length: int | None = Field(default=None, description="characters of the whole text, where it is cut here")
    labels: list[str] | None = Field(default=None, description="of rules that the line fits, where there are any")


class Hit(ListedLine):
    spans: list[list[int]] = Field(description="where in the text, [from, to] in UTF-16 units as JavaScript counts")


class Lines(Schema):
    items: list[Line]
    next: str | None = Field(description="null when this is all there is")
    cursor: str = Field(description="pass it as after= to read on later, when next is null too")


class LinesQuery(Schema):
    rank: int | None = None
    after: str = ""
    q: str = Field(default="", max_length=500, description="lines that contain this, in any case")
    limit: Annotated[int, Field(ge=1, le=5000)] = 500
    tail: bool = Field(default=False, description="the last lines instead of the first")


class FiltersQuery(Schema):
    rank: list[int] = Field(default=[], max_length=1000, description="lines of these ranks")
    stream: StreamName | None = None
    level: list[LevelName] = Field(default=[], max_length=20, description="lines of these levels")
    attempt: int | None = Field(default=None, description="lines of the attempt with this fence")

    @property
    def filters(self) -> Filters:
        levels = frozenset(CODES["" if level == "none" else level] for level in self.level)
        return Filters(frozenset(self.rank), self.stream or "", levels, self.attempt)


class Overview(schema_of(log_windows.Overview)):  # type: ignore[misc]  # the fields are those of the records
    """Numbers of lines."""

    labels: dict[str, int] = Field(description="how many lines got each label of a rule, whatever the other filters")


class WindowQuery(FiltersQuery):
    start: Annotated[int, Field(ge=-(2**53), le=2**53)] = Field(default=0, description="below 0: from the end")
    limit: Annotated[int, Field(ge=1, le=2000)] = 200


class Window(Schema):
    total: int
    start: int
    items: list[ListedLine]
    cursor: int


class ErrorName(StrEnum):
    NEXT = "next"
    PREVIOUS = "previous"


class LocateQuery(FiltersQuery):
    line: str = Field(default="", description="the id of a line")
    time: float | None = Field(default=None, allow_inf_nan=False, description="Unix seconds: the first line from then")
    error: ErrorName | None = Field(default=None, description="an error behind, or before, the place from=")
    from_: int | None = Field(default=None, alias="from", ge=-1, le=2**53)


Located = schema_of(log_windows.Located, "Located")


class SearchQuery(FiltersQuery):
    q: str = Field(
        default="", max_length=log_patterns.MAX_CHARS, description="a text, or an expression in RE2's syntax"
    )
    label: str = Field(default="", max_length=40, description="instead of q: lines that fit the rules with this label")
    regex: bool = False
    case: bool = Field(default=False, description="whether capitals and small letters differ")
    after: str = Field(default="", max_length=500, description="next of the page before")
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    budget_ms: Annotated[int, Field(ge=1, le=2000)] = 150


class Hits(Schema):
    items: list[Hit]
    next: str | None = Field(description="pass it as after= to search on; null when all was searched")
    num_scanned: int = Field(description="lines before the place that the search has come to")
    total: int
    is_over: bool


@router.get("/runs/{run_id}/logs", response=Lines, summary="Log lines of a run")
@operation(thing(Permission.RUNS_READ))
def list_lines(request: HttpRequest, run_id: str, query: Query[LinesQuery]) -> Any:
    """All ranks by time. `next` as `after` reads on, also while lines arrive. Example: `?rank=0&limit=100`"""
    return read_logs(get_run(request, run_id).pk, query.rank, query.after, query.q, query.limit, query.tail)


@router.get("/runs/{run_id}/logs/overview", response=Overview, summary="Numbers of lines by kind")
@operation(thing(Permission.RUNS_READ))
def overview(request: HttpRequest, run_id: str, query: Query[FiltersQuery]) -> Any:
    """By rank, stream, level and attempt, with the first error, and errors and warnings in up to 200 equal stretches.
    `labels` has how many lines of each label of a rule the nodes have counted. Example: `?rank=0&rank=1`"""
    run = get_run(request, run_id)
    return {**log_windows.overview(run.pk, query.filters), "labels": log_labels.counts_of(run, query.attempt)}


@router.get("/runs/{run_id}/logs/window", response=Window, exclude_none=True, summary="Lines by their place among all")
@operation(thing(Permission.RUNS_READ))
def window(request: HttpRequest, run_id: str, query: Query[WindowQuery]) -> Any:
    """By time, attempt, rank, stream, line. A text of more than 4,000 characters is cut, and `length` has its size.
    Example: `?start=-50&limit=50&level=error`"""
    run = get_run(request, run_id)
    found = log_windows.window(run.pk, query.start, query.limit, query.filters)
    log_labels.label_lines(run, found["items"])
    return _as_it_is(found)


@router.get("/runs/{run_id}/logs/locate", response=Located, summary="The place of a line, a moment or an error")
@operation(thing(Permission.RUNS_READ))
def locate(request: HttpRequest, run_id: str, query: Query[LocateQuery]) -> Any:
    """404 where there is none. Example: `?error=next&from=41`"""
    run = get_run(request, run_id)
    if [bool(query.line), query.time is not None, query.error is not None].count(True) != 1:
        raise ValidationError({"line": "line, time or error: exactly one of them says what is sought"})
    if query.line:
        found = log_windows.locate(run.pk, _named("line", query.line), query.filters)
    elif query.time is not None:
        found = log_windows.locate_time(run.pk, query.time, query.filters)
    else:
        is_next = query.error == ErrorName.NEXT
        place = query.from_ if query.from_ is not None else -1 if is_next else 2**53
        found = log_windows.locate_error(run.pk, place, query.filters, is_next=is_next)
    if found is None:
        raise Http404("no such line")
    return found


def _named(field: str, text: str) -> LineId:
    try:
        return line_id(text)
    except BadLine as error:
        raise ValidationError({field: str(error)}) from error


@router.get("/runs/{run_id}/logs/line", response=Line, summary="One line, whole")
@operation(thing(Permission.RUNS_READ))
def line(request: HttpRequest, run_id: str, id: str) -> Any:
    """Its id has attempt, rank, stream and number, and never changes. Example: `?id=a1.r0.o.0`"""
    found = log_windows.whole_line(get_run(request, run_id).pk, _named("id", id))
    if found is None:
        raise Http404("no such line")
    return found


@router.get("/runs/{run_id}/logs/search", response=Hits, summary="Search the log, a while at a time")
@operation(thing(Permission.RUNS_READ))
def search(request: HttpRequest, run_id: str, query: Query[SearchQuery]) -> Any:
    """The oldest first, with `index`, `spans` and `labels`. It answers after `limit` hits or `budget_ms`; `next` as
    `after` continues, `num_scanned` of `total` is the progress. Example: `?q=nan%7Cinf&regex=true`"""
    run = get_run(request, run_id)
    pattern = _pattern(run, query)
    budget_s = query.budget_ms / 1000
    try:
        found = log_search.search(
            run.pk, pattern, query.filters, after=query.after, limit=query.limit, budget_s=budget_s
        )
    except log_search.TooSlow as error:
        raise ValidationError({"q": str(error)}) from error
    log_labels.label_lines(run, found["items"])
    return _as_it_is(found)


def _pattern(run: Run, query: SearchQuery) -> log_patterns.Pattern:
    """Return what is sought: a text, an expression, or what the rules with a label look for."""
    if bool(query.q) == bool(query.label):
        raise ValidationError({"q": "q or label: exactly one of them says what is sought"})
    try:
        if not query.label:
            make = log_patterns.regex if query.regex else log_patterns.literal
            return make(query.q, is_case=query.case)
        source = log_labels.pattern_of(run, query.label)
        if source is None:
            raise ValidationError({"label": f"no rule gives lines of this run the label {query.label!r}"})
        return log_patterns.regex(source, is_case=True)
    except log_patterns.BadPattern as error:
        raise ValidationError({"q": str(error)}) from error


def _as_it_is(found: Mapping[str, object]) -> HttpResponse:
    """Answer without having each of thousands of lines checked again: that would cost more than all before."""
    return HttpResponse(json.dumps(found), content_type="application/json")


@router.get("/runs/{run_id}/logs/download", summary="The log as text")
@operation(thing(Permission.RUNS_READ))
def download(request: HttpRequest, run_id: str, query: Query[FiltersQuery]) -> StreamingHttpResponse:
    run = get_run(request, run_id)
    right = LastingRight(request, lambda user: get_run(user, run_id))
    response = text_response(request, read_log_text(run.pk, query.filters), right)
    response["Content-Disposition"] = f'attachment; filename="{run.pk}.log"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
