"""``/bundles``: code that people ship and nodes fetch."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from ninja.errors import HttpError

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.node_auth import NodeAuth
from runs.api.openapi import ANY_BYTES
from runs.api.schemas import schema_of
from runs.api.streaming import file_response
from runs.models import Node, Placement, bundle_of
from runs.placing.spares import standby_of
from runs.records.files.paths import bundle_path
from runs.rights.access import NotFound, Permission, get_project
from runs.rights.access.operations import NODE, operation, thing
from trainyard.contract.answers.runs import Bundle

router = Resource(tags=["bundles"])

MAX_BUNDLE_BYTES = 50 * 1024 * 1024


@router.post("/bundles", response={201: schema_of(Bundle)}, openapi_extra=ANY_BYTES, summary="Upload packed code")
@operation(thing(Permission.RUNS_LAUNCH))
def upload(request: HttpRequest, project: str = "default") -> Any:
    """The body is a `tar.gz` of up to 50 MB, as `trainyard.bundle.pack` makes it; a script's `task.code` is then
    `{"sha256": …}`. The same bytes again are the same bundle. 409 beyond the project's quota. Example:
    `?project=default @code.tar.gz`"""
    into = get_project(request, project)
    if len(request.body) > MAX_BUNDLE_BYTES:
        raise HttpError(413, f"A bundle has at most {MAX_BUNDLE_BYTES // 1024 // 1024} MB.")
    try:
        bundle = actions.store_bundle(actor=actor(request), project=into, data=request.body)
    except ValueError as error:
        raise HttpError(422, str(error)) from error
    return {"sha256": bundle.sha256, "size_bytes": bundle.size_bytes, "files": bundle.files}


@router.get("/bundles/{sha256}", auth=NodeAuth(), response=None, summary="Fetch packed code (nodes only)")
@operation(NODE)
def fetch(request: HttpRequest, sha256: str) -> HttpResponseBase:
    """A node gets the bundles of the runs that are placed on it, or that it prepares for as a spare, and no others."""
    node: Node = request.auth  # type: ignore[attr-defined]
    placed = Placement.objects.filter(node=node, attempt__ended_at=None).select_related("attempt__run")
    wanted = {bundle_of(one.attempt.run) for one in placed}
    if sha256 not in wanted:
        prepared = standby_of([node], timezone.now()).get(node.pk, [])
        wanted |= {one.code.sha256 for one in prepared if one.code is not None}
    path = bundle_path(sha256)
    if sha256 not in wanted or not path.is_file():
        raise NotFound(f"There is no bundle {sha256[:12]!r} for this node.")
    return file_response(request, path, None)
