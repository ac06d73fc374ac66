"""``/runs/{id}/checkpoints``: what a run can be gone on from. And what nodes ask before they delete any."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema

from runs.api.auth import Resource, actor
from runs.api.machines.node_bodies import answer_with, described, read_sealed_body
from runs.api.paging import ListQuery, Page, page
from runs.models import GoneRun, RemovedData
from runs.presenting.checkpoints import CheckpointDocument, documents
from runs.privacy.retention import runs_without_checkpoints
from runs.records.metrics.models import Checkpoint
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import NODE, operation, thing
from trainyard.contract.calls.deleted_runs import DeletedRuns, RunList

router = Resource(tags=["runs"])


class RestoredOut(Schema):
    run: str
    attempt: int | None
    at: str


class CheckpointOut(Schema):
    name: str = Field(description="its folder's")
    step: int
    fence: int
    attempt: int | None = Field(description="the number of the attempt that took it")
    state: str = Field(description="valid, deleted, invalid, missing or late")
    valid: bool = Field(description="whether a training may go on from it")
    why: str = Field(description="why it is invalid or missing")
    bytes: int | None
    num_files: int | None
    world_size: int | None
    degrees: dict[str, int]
    took_s: float | None
    stall_s: float | None
    key_version: int = Field(description="of the project's storage key that it is encrypted with; 0: it is not")
    at: str
    rank: int | None
    node: str
    deleted_at: str | None
    restored_by: list[RestoredOut]


@router.get("/runs/{run_id}/checkpoints", response=Page[CheckpointOut])
@operation(thing(Permission.RUNS_READ))
def checkpoints(request: HttpRequest, run_id: str, query: Query[ListQuery]) -> Page[CheckpointDocument]:
    """The newest first."""
    user = actor(request)
    run = get_run(request, run_id)
    found = Checkpoint.objects.filter(run_id=run.pk)
    return page(found, lambda rows: documents(user, run, rows), sort="-id", cursor=query.cursor, limit=query.limit)


@router.post(
    "/node/gone-runs",
    response={200: None},
    openapi_extra=described(RunList, DeletedRuns),
    summary="Of which of these runs checkpoints may go (nodes only)",
)
@operation(NODE)
def gone_runs(request: HttpRequest) -> HttpResponse:
    """A run that was never here is not among them: its checkpoints are another server's."""
    body = read_sealed_body(request, RunList)
    gone = list(GoneRun.objects.filter(pk__in=body.runs).values_list("pk", flat=True))
    expired = RemovedData.objects.filter(runs_without_checkpoints(), run__in=body.runs)
    return answer_with(DeletedRuns(sorted({*gone, *expired.values_list("run_id", flat=True)})))
