"""``/runs/…/code``: which commit a run from Git was made of, and what is in it that the run before had not."""

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema

from runs.api.auth import Resource
from runs.api.schemas import Shown
from runs.inputs.repositories.mirrors import difference
from runs.models import Project, Run, RunCode
from runs.rights.access import Permission, get_run, or_not_found
from runs.rights.access.operations import operation, thing

router = Resource(tags=["runs"])


class CodeOut(Schema):
    url: str
    commit: str
    branch: str = Field(description="empty where a tag or a commit was asked for")
    path: str
    subject: str
    author: str
    authored_at: Shown | None
    bundle_sha256: str = Field(validation_alias="sha256")
    previous_commit: str = Field(
        validation_alias="previous", description="of the project's last run of this repository; empty for its first"
    )
    fetch_s: float = Field(description="seconds that it took at the submit")
    remarks: list[str]


@router.get("/runs/{run_id}/code", response=CodeOut, summary="The commit that a run was made of")
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, run_id: str) -> RunCode:
    """With its branch, subject and author, and the commit of the run before. 404 where the code is not from Git."""
    return _code_of(get_run(request, run_id))


@router.get(
    "/runs/{run_id}/code/diff",
    response=None,
    summary="Changes since the run before, as a patch",
    openapi_extra={"responses": {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}},
)
@operation(thing(Permission.RUNS_READ))
def diff(request: HttpRequest, run_id: str) -> HttpResponse:
    """Empty where nothing changed. 404 for the first run of a repository, and where its copy is not here any more."""
    run = get_run(request, run_id)
    project: Project = run.project
    sentence = "There is no run before this one whose commit is still here."
    found = or_not_found(difference(project, _code_of(run)), sentence)
    return HttpResponse(found.patch, content_type="text/plain; charset=utf-8")


def _code_of(run: Run) -> RunCode:
    return or_not_found(RunCode.objects.filter(run=run).first(), f"The code of run {run.name} is not from Git.")
