"""What nodes send of a run's output beside whole small files: large ones in parts, links, and a list of the rest."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Field, Router, Schema
from ninja import Status as Answer
from ninja.errors import HttpError

from runs.api.machines.node_auth import NodeAuth
from runs.api.machines.node_files import placement_of, refusals, sender_of
from runs.api.shapes import Body
from runs.files import outputs, uploads
from runs.models import Placement

router = Router(tags=["files"])

MAX_GAINED = 1_000


class Begin(Body):
    path: str = Field(max_length=outputs.MAX_PATH)
    size_bytes: int = Field(ge=0, lt=2**53)
    key: str = Field(pattern=r"^[0-9a-f]{16,64}$")
    same_as: str = Field("", max_length=outputs.MAX_PATH, description="the file of this run that it is a link to")


class Begun(Schema):
    path: str = Field(description="where the file stands in the run's output")
    offset: int = Field(description="where the next part begins")
    is_done: bool


class GainedFile(Body):
    path: str = Field(max_length=outputs.MAX_PATH)
    size_bytes: int = Field(ge=0, lt=2**53)


class Gained(Body):
    num_files: int = Field(ge=0, lt=2**31)
    bytes: int = Field(ge=0, lt=2**63)
    files: Annotated[list[GainedFile], Field(max_length=MAX_GAINED)]


_raw = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}
_PATH = "/node/runs/{run_id}/fences/{fence}"


@router.post(f"{_PATH}/uploads", auth=NodeAuth(), response=Begun, summary="Begin a large file, or a link (nodes only)")
def begin(request: HttpRequest, run_id: str, fence: int, body: Begin) -> Begun:
    sender = sender_of(placement_of(request, run_id, fence))
    with refusals():
        try:
            if body.same_as:
                return Begun(path=uploads.link(sender, body.path, body.same_as), offset=0, is_done=True)
            return Begun(**uploads.begin(sender, body.path, body.size_bytes, body.key)._asdict())
        except LookupError as error:
            missing = f"{body.same_as!r}, which {body.path!r} is a link to, is not among the files."
            raise HttpError(422, missing) from error


@router.put(
    f"{_PATH}/uploads/{{key}}/{{offset}}",
    auth=NodeAuth(),
    response=Begun,
    openapi_extra=_raw,
    summary="Store a part of a large file (nodes only)",
)
def store_part(request: HttpRequest, run_id: str, fence: int, key: str, offset: int) -> Begun:
    """Where the part does not begin where the last one ended, the answer says where the next one begins."""
    placement_of(request, run_id, fence)
    digest: str = request.sealed_digest  # type: ignore[attr-defined]
    with refusals():
        try:
            return Begun(**uploads.write_part(run_id, key, offset, request.read, digest)._asdict())
        except uploads.WrongOffset as error:
            return Begun(path="", offset=error.offset, is_done=False)
        except LookupError as error:
            raise HttpError(428, "Nothing was begun under this key. Begin the file again.") from error


@router.post(f"{_PATH}/gained", auth=NodeAuth(), response={204: None}, summary="List what was not sent (nodes only)")
def tell_gained(request: HttpRequest, run_id: str, fence: int, body: Gained) -> Answer[None]:
    """What a script left in its working folder beside the code: it waits on its node for a person's word."""
    placement = placement_of(request, run_id, fence, is_newest=False)
    found = {} if not body.num_files else body.dict()
    Placement.objects.filter(pk=placement.pk).update(gained=found, leftovers="")
    return Answer(204, None)
