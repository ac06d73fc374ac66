"""``/runs/{id}/files``: what a run left in its output folder. Downloads only: nothing in it is ever rendered."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router, Schema
from ninja import Status as Answer
from ninja.errors import HttpError

from runs import outputs
from runs.access import NotFound, get_run
from runs.api.auth import actor
from runs.api.node_auth import NodeAuth
from runs.api.streaming import file_response
from runs.models import Node, Placement

router = Router(tags=["files"])


class FileOut(Schema):
    path: str
    size_bytes: int
    modified_at: str


class FileList(Schema):
    items: list[FileOut]
    next: str | None


_raw = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}


@router.get("/runs/{run_id}/files", response=FileList)
def find(request: HttpRequest, run_id: str) -> dict[str, Any]:
    return {"items": outputs.listing(get_run(actor(request), run_id).pk), "next": None}


@router.get("/runs/{run_id}/files/{path:path}", response=None, summary="Download a file")
def download(request: HttpRequest, run_id: str, path: str) -> HttpResponseBase:
    run = get_run(actor(request), run_id)
    found = outputs.find(run.pk, path)
    if found is None:
        raise NotFound(f"Run {run.name} has no file {path!r}.")
    response = file_response(request, found)
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


@router.put(
    "/node/runs/{run_id}/fences/{fence}/files/{path:path}",
    auth=NodeAuth(),
    response={204: None},
    openapi_extra=_raw,
    summary="Store an output file (nodes only)",
)
def store(request: HttpRequest, run_id: str, fence: int, path: str) -> Answer[None]:
    """Only a node of the run's newest attempt may: what an older one leaves does not change the run."""
    node: Node = request.auth  # type: ignore[attr-defined]
    placement = Placement.objects.filter(node=node, attempt__run=run_id, attempt__fence=fence)
    run = placement.values_list("attempt__run__fence", flat=True).first()
    if run is None:
        raise NotFound(f"There is no run {run_id!r} with fence {fence} on this node.")
    if run != fence:
        raise HttpError(409, f"Fence {fence} is over: the newest attempt of the run has fence {run}.")
    try:
        outputs.store(run_id, path, request.read, request.sealed_digest)  # type: ignore[attr-defined]
    except outputs.TooLarge as error:
        raise HttpError(413, str(error)) from error
    except ValueError as error:
        raise HttpError(422, str(error)) from error
    return Answer(204, None)
