"""``/runs/{id}/media``: what a run logs that is no number. Files are handed out as they came, and never run."""

import json
import re
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import content_disposition_header, parse_etags
from ninja import Field, Query, Schema

from runs.api.auth import Resource, actor
from runs.api.metrics.columns import labels_in
from runs.api.paging import page_of
from runs.api.schemas import schema_of
from runs.records.media import read as media
from runs.records.media.kinds import KINDS, HistogramDocument, TableDocument
from runs.records.metrics.encrypted import is_hidden
from runs.records.metrics.models import Media
from runs.records.metrics.progress import cursor_of
from runs.rights.access import NotFound, Permission, get_run, or_not_found
from runs.rights.access.operations import operation, thing
from trainyard.formats.words import listed

router = Resource(tags=["media"])

FOR_EVER = "private, max-age=31536000, immutable"


class StepItem(schema_of(media.MediaItem)):  # type: ignore[misc]  # the fields are those of the records
    """An item without its data."""


class StepList(Schema):
    items: list[StepItem]
    cursor: int
    thinned: bool = Field(description="true: an even choice of the steps, since there are more than 2,000")


class HistogramOut(schema_of(HistogramDocument)):  # type: ignore[misc]  # as above
    """A histogram."""


class TableOut(schema_of(TableDocument)):  # type: ignore[misc]  # as above
    """A table."""


class MediaOut(schema_of(media.MediaItem, "StoredMedia", without=("superseded",))):  # type: ignore[misc]  # as above
    """One of histogram, text and table is there; images and sounds are files."""

    name: str
    labels: dict[str, str]
    histogram: HistogramOut | None = None
    text: str | None = None
    table: TableOut | None = None


class NameQuery(Schema):
    name: str
    labels: str = Field(default="", description='exactly these, as JSON: {"index": "0"}')


class StepsQuery(NameQuery):
    attempts: Literal["newest", "all"] = Field(default="newest", description="all: what a restart logged again, too")


class HistogramsQuery(NameQuery):
    steps: Annotated[int, Field(ge=1, le=1000)] = Field(default=200, description="so many at most, evenly chosen")


_not_modified = {304: {"description": "What If-None-Match names is still the answer"}}
_types = [f"{name}/{form}" for name, kind in KINDS.items() for form in kind.formats]
_file = {"content": {one: {"schema": {"type": "string", "format": "binary"}} for one in _types}}


@router.get("/runs/{run_id}/media", response=page_of(media.MediaName, "MediaItem"), summary="Names of a run's media")
@operation(thing(Permission.RUNS_READ))
def list_media(request: HttpRequest, run_id: str) -> Any:
    """Each name with its labels and kind, without hidden items."""
    return {"items": media.media_list(get_run(request, run_id).pk), "next": None}


@router.get("/runs/{run_id}/media/steps", response=StepList, summary="Steps of one of a run's media")
@operation(thing(Permission.RUNS_READ))
def steps(request: HttpRequest, run_id: str, query: Query[StepsQuery]) -> Any:
    """By step and rank, without the data. The newest attempt hides older items from its first step on; hidden ones have
    `superseded`. Above 2,000 steps an even choice comes, with `thinned` true. Example: `?name=samples`"""
    run = get_run(request, run_id)
    cursor = cursor_of(run.pk)  # before it is read: what comes meanwhile is read again, and not missed
    items, is_thinned = media.steps_of(run.pk, query.name, labels_in(query.labels), is_all=query.attempts == "all")
    return {"items": items, "cursor": cursor, "thinned": is_thinned}


@router.get(
    "/runs/{run_id}/media/histograms",
    response=schema_of(media.HistogramsOverTime, "Histograms"),
    summary="Histograms over steps on common edges",
)
@operation(thing(Permission.RUNS_READ))
def histograms(request: HttpRequest, run_id: str, query: Query[HistogramsQuery]) -> Any:
    """`counts` for each of the `steps`. They are spread evenly over their bins, and those of several ranks are added.
    Example: `?name=weights&steps=100`"""
    return media.histograms(get_run(request, run_id).pk, query.name, labels_in(query.labels), query.steps)


@router.get(
    "/runs/{run_id}/media/{int:media_id}",
    response=MediaOut,
    openapi_extra={"responses": _not_modified},
    summary="One of a run's media with its data",
)
@operation(thing(Permission.RUNS_READ))
def one(request: HttpRequest, run_id: str, media_id: int) -> HttpResponse:
    """`histogram` (`edges`, `counts`), `text`, or `table` (`columns`, `rows`). It never changes: `ETag` gets 304."""
    row = _row(request, run_id, media_id)
    if (known := _known(request, row)) is not None:
        return known
    names = ("name", "labels", "kind", "step", "time", "attempt", "rank", "meta", "size")
    document = {"id": row.pk, **{name: getattr(row, name) for name in names}, **media.content(row)}
    return _kept(HttpResponse(json.dumps(document, allow_nan=False), content_type="application/json"), row)


@router.get(
    "/runs/{run_id}/media/{int:media_id}/file",
    response=None,
    openapi_extra={"responses": {200: _file, **_not_modified}},
    summary="The file of an image or a sound",
)
@operation(thing(Permission.RUNS_READ))
def file(request: HttpRequest, run_id: str, media_id: int) -> HttpResponse:
    """Its type follows from its first bytes."""
    row = _row(request, run_id, media_id)
    if not KINDS[row.kind].formats:
        files = listed([kind.many for kind in KINDS.values() if kind.formats])
        raise NotFound(f"{row.name!r} at step {row.step} is a {row.kind}: only {files} are files.")
    if (known := _known(request, row)) is not None:
        return known
    data = media.file_bytes(row)
    form = row.meta["format"]
    response = HttpResponse(data, content_type=f"{row.kind}/{form}")
    name = re.sub(r"[^\w.-]+", "-", row.name)[:100]
    response["Content-Disposition"] = content_disposition_header(False, f"{name}-{row.step}.{form}") or "inline"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return _kept(response, row)


def _row(request: HttpRequest, run_id: str, media_id: int) -> Media:
    run = get_run(actor(request), run_id)
    return or_not_found(media.find(run.pk, media_id), f"Run {run.name} has no media {media_id}.")


def _known(request: HttpRequest, row: Media) -> HttpResponse | None:
    """Return the answer for who has it already: an item never changes. No browser keeps one that is encrypted here."""
    if is_hidden(bytes(row.data)):
        return None
    tags = parse_etags(request.headers.get("If-None-Match", ""))
    return _kept(HttpResponseNotModified(), row) if f'"{row.pk}"' in tags or "*" in tags else None


def _kept(response: HttpResponse, row: Media) -> HttpResponse:
    response["ETag"] = f'"{row.pk}"'
    response["Cache-Control"] = "private, no-store" if is_hidden(bytes(row.data)) else FOR_EVER
    return response
