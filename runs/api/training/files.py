"""``/runs/{id}/files``: what a run left in its output folder. Downloads only: nothing in it is ever rendered."""

from typing import Literal

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja.errors import HttpError

from runs import actions
from runs.actions.local import may_report
from runs.api.auth import Resource, actor
from runs.api.openapi import ANY_BYTES
from runs.api.schemas import Body, schema_of
from runs.api.streaming import LastingRight, file_response
from runs.api.training.uploads import placement_of, refusals, sender_of
from runs.models import Run
from runs.presenting.runs import sendings_of
from runs.records.files import outputs, room, uploads
from runs.records.files.encrypted import EncryptedOutput, is_encrypted, plain_name
from runs.rights.access import Permission, get_run, or_not_found
from runs.rights.access.operations import NODE, operation, thing
from runs.rights.secrets.storage_keys import keyring_of_project
from trainyard.at_rest.chunks import CannotDecrypt
from trainyard.contract.answers import runs as answers

router = Resource(tags=["files"])


FileList = schema_of(answers.FileList, "FileList")


class Decision(Body):
    decision: Literal["upload", "discard"]


@router.get("/runs/{run_id}/files", response=FileList)
@operation(thing(Permission.RUNS_READ))
def find(request: HttpRequest, run_id: str) -> answers.FileList:
    """In its output folders; a second node's file of the same name is below `node-N/`. `left` is what waits on nodes
    for a decision: files in a script's working folder, and files the server did not take."""
    return _list_of(get_run(request, run_id))


@router.put(
    "/runs/{run_id}/files/{path:path}",
    response={204: None},
    openapi_extra=ANY_BYTES,
    summary="Keep a file with a local run",
)
@operation(thing(Permission.RUNS_REPORT))
def keep(request: HttpRequest, run_id: str, path: str) -> None:
    """Of a run that was logged outside of Trainyard, in the place of one of that path. 409 for a run of nodes, 411
    without its length, 413 without room. Example: `@model.pt`"""
    run = get_run(request, run_id)
    may_report(actor(request), run)
    if (length := request.headers.get("Content-Length")) is None:
        raise HttpError(411, "A file is sent with its length.")
    with refusals(no_room=413):
        room.check_room(run.pk, int(length))
        outputs.store(run.pk, path, request.read, "", keyring_of_project(run.project))


@router.post("/runs/{run_id}/leftovers", response=FileList, summary="Decide about files that were left on nodes")
@operation(thing(Permission.RUNS_DELETE))
def decide(request: HttpRequest, run_id: str, body: Decision) -> answers.FileList:
    """`upload` sends them (those of a working folder to `working-folder/`), `discard` deletes them. 409 where there are
    none. Example: `{"decision": "upload"}`"""
    return _list_of(actions.decide_leftovers(actor=actor(request), run=get_run(request, run_id), word=body.decision))


def _list_of(run: Run) -> answers.FileList:
    return answers.FileList(items=outputs.listing(run.pk), next=None, left=_left(run), sending=_sending(run))


def _sending(run: Run) -> list[answers.Sending]:
    """Return what is on its way: also of a node that has not listed its files yet."""
    attempt = run.attempts.filter(go__isnull=False).order_by("-number").first()
    placements = attempt.placements.select_related("node").order_by("node__name") if attempt is not None else ()
    return [
        answers.Sending(
            node=node,
            num_files=state.num_pending,
            bytes=sum(state.pending.values()),
            sent_bytes=sum(state.sending.values()),
            problem=state.problem,
        )
        for node, state, is_sent in sendings_of(list(placements))
        if not is_sent
    ]


def _left(run: Run) -> list[answers.LeftOnNode]:
    return [
        answers.LeftOnNode(
            node=one.node.name,
            attempt=one.attempt.number,
            num_files=one.gained.get("num_files", 0),
            bytes=one.gained.get("bytes", 0),
            files=one.gained.get("files", []),
            refused=one.output_state.refused,
            decision=one.leftovers,
        )
        for one in actions.undecided(run)
    ]


@router.get("/runs/{run_id}/files/{path:path}", response=None, summary="Download a file")
@operation(thing(Permission.RUNS_READ))
def download(request: HttpRequest, run_id: str, path: str) -> HttpResponseBase:
    """Always as an attachment."""
    run = get_run(request, run_id)
    found = or_not_found(outputs.find(run.pk, path), f"Run {run.name} has no file {path!r}.")
    right = LastingRight(request, lambda user: get_run(user, run_id))
    keys = EncryptedOutput(found, run.pk, keyring_of_project(run.project)) if is_encrypted(found) else None
    try:
        response = file_response(request, found, right, keys, name=plain_name(found.name))
    except CannotDecrypt as error:
        raise HttpError(409, f"{path} cannot be decrypted: {error}.") from error
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


@router.put(
    "/node/runs/{run_id}/fences/{fence}/files/{path:path}",
    response={204: None},
    openapi_extra=ANY_BYTES,
    summary="Store an output file (nodes only)",
)
@operation(NODE)
def store(request: HttpRequest, run_id: str, fence: int, path: str) -> None:
    """Only a node of the run's newest attempt may, until it has said that everything was sent: what an older attempt
    leaves, or what comes after the end, does not change the run."""
    sender = sender_of(placement_of(request, run_id, fence))
    with refusals():
        room.check_room(run_id, int(request.headers.get("Content-Length") or 0))
        place = uploads.place_of(sender, path)
        outputs.store(run_id, place, request.read, request.sealed_digest, sender.keyring)  # type: ignore[attr-defined]
