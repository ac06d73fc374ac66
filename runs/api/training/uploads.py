"""What nodes send of a run's output beside whole small files: large ones in parts, links, and a list of the rest."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Status as Answer

from runs.api.auth import Resource
from runs.api.machines.node_bodies import answer_with, described, read_sealed_body
from runs.api.machines.node_files import placement_of, refusals, sender_of
from runs.models import Placement
from runs.records.files import uploads
from runs.rights.access.operations import NODE, operation
from trainyard.contract.base import to_builtins
from trainyard.contract.calls.output_files import GainedFiles, UploadProgress, UploadRequest

router = Resource(tags=["files"])

_raw = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}
_PATH = "/node/runs/{run_id}/fences/{fence}"


@router.post(
    f"{_PATH}/uploads",
    response={200: None},
    openapi_extra=described(UploadRequest, UploadProgress),
    summary="Begin a large file, or a link (nodes only)",
)
@operation(NODE)
def begin(request: HttpRequest, run_id: str, fence: int) -> HttpResponse:
    body = read_sealed_body(request, UploadRequest)
    sender = sender_of(placement_of(request, run_id, fence))
    with refusals():
        if body.same_as:
            return answer_with(UploadProgress(uploads.link(sender, body.path, body.same_as), 0, is_done=True))
        return answer_with(uploads.begin(sender, body.path, body.size_bytes, body.key))


@router.put(
    f"{_PATH}/uploads/{{key}}/{{offset}}",
    response={200: None},
    openapi_extra={**_raw, **described(answer=UploadProgress)},
    summary="Store a part of a large file (nodes only)",
)
@operation(NODE)
def store_part(request: HttpRequest, run_id: str, fence: int, key: str, offset: int) -> HttpResponse:
    """Where the part does not begin where the last one ended, the answer says where the next one begins."""
    sender = sender_of(placement_of(request, run_id, fence))
    digest: str = request.sealed_digest  # type: ignore[attr-defined]
    with refusals():
        try:
            return answer_with(uploads.write_part(sender, key, offset, request.read, digest))
        except uploads.WrongOffset as error:
            return answer_with(UploadProgress("", error.offset, is_done=False))


@router.post(
    f"{_PATH}/gained",
    response={204: None},
    openapi_extra=described(GainedFiles),
    summary="List what was not sent (nodes only)",
)
@operation(NODE)
def tell_gained(request: HttpRequest, run_id: str, fence: int) -> Answer[None]:
    """What a script left in its working folder beside the code: it waits on its node for a person's word."""
    body = read_sealed_body(request, GainedFiles)
    placement = placement_of(request, run_id, fence, is_newest=False)
    found = to_builtins(body) if body.num_files else {}
    Placement.objects.filter(pk=placement.pk).update(gained=found, leftovers="")
    return Answer(204, None)
