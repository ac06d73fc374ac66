"""``/runs/{id}/logs``: lines of all ranks by time, and the whole log as a file."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Field, Query, Router, Schema

from runs.access import get_run
from runs.api.auth import actor
from runs.api.streaming import text_response
from runs.metrics import read
from runs.metrics.log_lines import Filters

router = Router(tags=["logs"])


class Line(Schema):
    rank: int
    stream: str
    time: float = Field(description="Unix seconds at the rank")
    text: str
    attempt: int


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


@router.get("/runs/{run_id}/logs", response=Lines, summary="Log lines of a run")
def list_lines(request: HttpRequest, run_id: str, query: Query[LinesQuery]) -> Any:
    run = get_run(actor(request), run_id)
    return read.logs(run.pk, query.rank, query.after, query.q, query.limit, query.tail)


@router.get("/runs/{run_id}/logs/download", summary="The whole log as text")
def download(request: HttpRequest, run_id: str, rank: int | None = None) -> StreamingHttpResponse:
    run = get_run(actor(request), run_id)
    response = text_response(request, read.log_text(run.pk, Filters(ranks={rank}) if rank is not None else Filters()))
    response["Content-Disposition"] = f'attachment; filename="{run.pk}.log"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
