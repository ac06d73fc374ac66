"""``/projects/{id}/workspace``: how the one who asks looks at a project's charts. Nobody else sees it.
``/projects/{id}/layout``: which charts are where for those who have no layout of their own."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema

from runs.api.auth import Resource, actor
from runs.api.problems import problem
from runs.api.schemas import Body
from runs.models import Project, User, Workspace
from runs.presenting.stamps import stamp
from runs.rights.access import Permission, get_project, require_account
from runs.rights.access.operations import operation, thing
from runs.values.run_config import why_not_kept
from trainyard.contract.base import JsonObject

router = Resource(tags=["projects"])

MAX_BYTES = 64 * 1024  # of state as JSON


class WorkspaceIn(Body):
    state: dict[str, Any] = Field(description=f"whatever the page wants to know again, at most {MAX_BYTES:,} bytes")


class WorkspaceOut(Schema):
    state: dict[str, Any]
    saved_at: str | None


@router.get("/projects/{project_id}/workspace", response=WorkspaceOut, summary="My view of a project's charts")
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, project_id: str) -> WorkspaceOut:
    """As the page saved it. Before that `state` is `{}` and `saved_at` null. Everybody has their own."""
    return _answer(Workspace.objects.filter(user=actor(request), project=get_project(request, project_id)).first())


@router.put("/projects/{project_id}/workspace", response=WorkspaceOut, summary="Keep my view of a project's charts")
@operation(thing(Permission.RUNS_READ))
def keep(request: HttpRequest, project_id: str, body: WorkspaceIn) -> WorkspaceOut | HttpResponse:
    """Viewers may, too. Example: `{"state": {"axis": "relative", "smoothing": {"kind": "ema", "amount": 0.6}}}`"""
    user = actor(request)
    project = get_project(request, project_id)
    require_account(user, Permission.ACCOUNT_MANAGE)
    return _kept(user, project, body.state)


@router.get("/projects/{project_id}/layout", response=WorkspaceOut, summary="Layout of a project's charts")
@operation(thing(Permission.RUNS_READ))
def show_layout(request: HttpRequest, project_id: str) -> WorkspaceOut:
    """Before one was saved `state` is `{}`."""
    return _answer(Workspace.objects.filter(user=None, project=get_project(request, project_id)).first())


@router.put("/projects/{project_id}/layout", response=WorkspaceOut, summary="Save the layout of a project's charts")
@operation(thing(Permission.RUNS_ANNOTATE))
def keep_layout(request: HttpRequest, project_id: str, body: WorkspaceIn) -> WorkspaceOut | HttpResponse:
    """Everybody in the project who has no layout of their own sees it. Example: `{"state": {"panels": {"panel:1":
    {"title": "", "lines": ["ema(train/loss, 0.9)"], "x": ""}}}}`"""
    return _kept(None, get_project(request, project_id), body.state)


def _kept(user: User | None, project: Project, state: JsonObject) -> WorkspaceOut | HttpResponse:
    if words := why_not_kept(state, MAX_BYTES):
        return problem(422, f"state: {words}", code="invalid", errors=[{"path": "state", "message": words}])
    kept, _ = Workspace.objects.update_or_create(user=user, project=project, defaults={"state": state})
    return _answer(kept)


def _answer(row: Workspace | None) -> WorkspaceOut:
    return WorkspaceOut(state=row.state, saved_at=stamp(row.saved_at)) if row else WorkspaceOut(state={}, saved_at=None)
