"""``/runs/{id}/files``: what a run left in its output folder. Downloads only: nothing in it is ever rendered."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
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
    """Only a node of the run's newest attempt may, until it has said that everything was sent: what an older attempt
    leaves, or what comes after the end, does not change the run."""
    node: Node = request.auth  # type: ignore[attr-defined]
    found = Placement.objects.filter(node=node, attempt__run=run_id, attempt__fence=fence)
    placement = found.select_related("attempt__run").first()
    if placement is None:
        raise NotFound(f"There is no run {run_id!r} with fence {fence} on this node.")
    if placement.attempt.run.fence != fence:
        newest = placement.attempt.run.fence
        raise HttpError(409, f"Fence {fence} is over: the newest attempt of the run has fence {newest}.")
    if not placement.takes_files(timezone.now()):
        raise HttpError(410, "The attempt is over, and its node had sent everything or had time enough to.")
    try:
        outputs.store(run_id, path, request.read, request.sealed_digest)  # type: ignore[attr-defined]
    except outputs.TooLarge as error:
        raise HttpError(413, str(error)) from error
    except ValueError as error:
        raise HttpError(422, str(error)) from error
    return Answer(204, None)
