"""``/runs/{id}/checkpoints``: what a run can be gone on from. And what nodes ask before they delete any."""

from django.http import HttpRequest, HttpResponse
from ninja import Query

from runs.api.auth import Resource, actor
from runs.api.node_auth import answer_with, described, read_sealed_body
from runs.api.paging import ListQuery, Page, page_of
from runs.models import GoneRun, RemovedData
from runs.presenting.checkpoints import documents
from runs.privacy.retention import runs_without_checkpoints
from runs.records.metrics.models import Checkpoint
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import NODE, operation, thing
from trainyard.contract.answers import people as answers
from trainyard.contract.calls import DeletedRuns, RunList

router = Resource(tags=["runs"])


@router.get("/runs/{run_id}/checkpoints", response=page_of(answers.Checkpoint))
@operation(thing(Permission.RUNS_READ))
def checkpoints(request: HttpRequest, run_id: str, query: Query[ListQuery]) -> "Page[answers.Checkpoint]":
    """The newest first. `stall_s` is how long training stood still. `state` is `valid`, `deleted`, `invalid` (`why`),
    `missing` (a later attempt did not find it) or `late` (saved after a newer attempt had begun). `restored_by` names
    the attempts of any run that resumed from it."""
    user = actor(request)
    run = get_run(request, run_id)
    return query.page(Checkpoint.objects.filter(run_id=run.pk), lambda rows: documents(user, run, rows), sort="-id")


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
