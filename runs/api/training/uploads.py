"""Output of a run that nodes send beside whole small files: large ones in parts, links, and a list of the rest."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja.errors import HttpError

from runs.api.auth import Resource
from runs.api.node_auth import answer_with, described, read_sealed_body
from runs.api.openapi import ANY_BYTES
from runs.models import Node, Placement
from runs.records.files import outputs, uploads
from runs.records.files.room import NoRoom
from runs.records.files.uploads import NoTarget, NotBegun, UploadingNode
from runs.rights.access import or_not_found
from runs.rights.access.operations import NODE, operation
from runs.rights.secrets.storage_keys import keyring_of_project
from trainyard.contract.base import to_builtins
from trainyard.contract.calls import GainedFiles, UploadProgress, UploadRequest

router = Resource(tags=["files"])

_PATH = "/node/runs/{run_id}/fences/{fence}"


@router.post(
    f"{_PATH}/uploads",
    response={200: None},
    openapi_extra=described(UploadRequest, UploadProgress),
    summary="Begin a large file, or a link (nodes only)",
)
@operation(NODE)
def begin(request: HttpRequest, run_id: str, fence: int) -> HttpResponse:
    """In parts of up to 8 MiB under a key of the node's; the answer says where to continue. `same_as` makes it a link
    to that file. 507 without room on the disk."""
    body = read_sealed_body(request, UploadRequest)
    sender = sender_of(placement_of(request, run_id, fence))
    with refusals():
        if body.same_as:
            return answer_with(UploadProgress(uploads.link(sender, body.path, body.same_as), 0, is_done=True))
        return answer_with(uploads.begin(sender, body.path, body.size_bytes, body.key))


@router.put(
    f"{_PATH}/uploads/{{key}}/{{offset}}",
    response={200: None},
    openapi_extra={**ANY_BYTES, **described(answer=UploadProgress)},
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
def tell_gained(request: HttpRequest, run_id: str, fence: int) -> None:
    """What a script left in its working folder beside the code: it waits on its node for a person's word."""
    body = read_sealed_body(request, GainedFiles)
    placement = placement_of(request, run_id, fence, is_newest=False)
    found = to_builtins(body) if body.num_files else {}
    Placement.objects.filter(pk=placement.pk).update(gained=found, leftovers="")


# Whose files a node may store: those of the newest attempt that it has a part of, until all of them have come.


def placement_of(request: HttpRequest, run_id: str, fence: int, *, is_newest: bool = True) -> Placement:
    """Return the part of the attempt that the calling node has. Raises NotFound, and HttpError where it is over: what
    an older attempt leaves, or what comes after the end, changes nothing, unless somebody has asked for it."""
    node: Node = request.auth  # type: ignore[attr-defined]
    found = Placement.objects.filter(node=node, attempt__run=run_id, attempt__fence=fence)
    sentence = f"There is no run {run_id!r} with fence {fence} on this node."
    placement = or_not_found(found.select_related("attempt__run").first(), sentence)
    newest = placement.attempt.run.fence
    if is_newest and newest != fence and placement.leftovers != "upload":
        raise HttpError(409, f"Fence {fence} is over: the newest attempt of the run has fence {newest}.")
    if not placement.takes_files(timezone.now()):
        raise HttpError(410, "The attempt is over, and its node had sent everything or had time enough to.")
    return placement


@contextmanager
def refusals(*, no_room: int = 507) -> Iterator[None]:
    """Answer what the storing of files raises."""
    try:
        yield
    except outputs.TooLarge as error:
        raise HttpError(413, str(error)) from error
    except NotBegun as error:
        raise HttpError(428, str(error)) from error
    except NoRoom as error:
        raise HttpError(no_room, str(error)) from error
    except (NoTarget, ValueError) as error:
        raise HttpError(422, str(error)) from error


def sender_of(placement: Placement) -> UploadingNode:
    number = Placement.objects.filter(attempt=placement.attempt_id).count()
    keyring = keyring_of_project(placement.attempt.run.project)
    return UploadingNode(placement.attempt.run_id, placement.node_id, placement.node_rank, number, keyring)
