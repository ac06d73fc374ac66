"""``/projects``, their members and invitations."""

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Query, Schema
from pydantic import BeforeValidator

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page
from runs.api.people.tokens import MadeBy
from runs.api.schemas import Body, Shown, TimeOut
from runs.models import Membership, Project, Role, Run, User
from runs.records.time_use.sums import time_of_all
from runs.rights.access import Permission, get_project, or_not_found, visible_projects
from runs.rights.access.operations import lists, operation, site, thing

router = Resource(tags=["projects"])


class ProjectIn(Body):
    name: str


class ProjectOut(Schema):
    id: str
    name: str
    created_at: Shown


class ProjectWithTime(ProjectOut):
    time: TimeOut = Field(description="summed over its runs that live or ended within 30 days")


class MemberOut(Schema):
    username: str = Field(validation_alias="user.username")
    name: Annotated[str, BeforeValidator(str)] = Field(validation_alias="user")
    role: str
    custom_role: Shown | None
    is_service: bool = Field(validation_alias="user.is_service", description="a service account of the project")
    since: Shown = Field(validation_alias="created_at")


class RoleIn(Body):
    role: Role
    custom_role: str | None = Field(None, description="a role of the project's own, which is added")


class InvitationIn(Body):
    role: Role = Role.MEMBER
    email: str = ""


class InvitationOut(Schema):
    id: str
    role: str
    email: str
    created_at: Shown
    expires_at: Shown
    accepted_at: Shown | None
    made_by: MadeBy


class NewInvitation(InvitationOut):
    secret: str = Field(description="shown this once")


@router.get("/projects", response=Page[ProjectOut])
@operation(lists(Permission.PROJECTS_READ))
def find(request: HttpRequest, query: Query[ListQuery]) -> Page[Any]:
    return query.page(visible_projects(actor(request)), list, sort="name")


@router.post("/projects", response={201: ProjectOut})
@operation(site(Permission.PROJECTS_CREATE))
def create(request: HttpRequest, body: ProjectIn) -> Project:
    """For administrators and people with the permission "Can add project". Example: `{"name": "vision"}`"""
    return actions.create_project(actor=actor(request), name=body.name)


@router.get("/projects/{project_id}", response=ProjectWithTime)
@operation(thing(Permission.PROJECTS_READ))
def show(request: HttpRequest, project_id: str) -> ProjectWithTime:
    """With `time`, summed over its runs that live or ended within 30 days, at most a minute old."""
    project = get_project(request, project_id)
    time = time_of_all(Run.objects.filter(project=project), timezone.now()).as_document()
    return ProjectWithTime(**dict(ProjectOut.from_orm(project)), time=TimeOut(**time))


@router.get("/projects/{project_id}/members", response=Page[MemberOut])
@operation(thing(Permission.MEMBERS_READ))
def members(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> Page[Any]:
    found = get_project(request, project_id).memberships.select_related("user", "custom_role")
    return query.page(found, list, sort="created_at")


@router.put("/projects/{project_id}/members/{username}", response=MemberOut, summary="Give a member another role")
@operation(thing(Permission.MEMBERS_MANAGE))
def change_role(request: HttpRequest, project_id: str, username: str, body: RoleIn) -> Membership:
    """You give, and take, no more than you may yourself. Example: `{"role": "maintainer"}`"""
    user = actor(request)
    project = get_project(request, project_id)
    custom = actions.custom_role_of(project, body.custom_role) if body.custom_role else None
    member = _member(project, username)
    return actions.change_role(actor=user, project=project, user=member, role=body.role, custom_role=custom)


@router.delete("/projects/{project_id}/members/{username}", response={204: None})
@operation(thing(Permission.MEMBERS_MANAGE))
def remove_member(request: HttpRequest, project_id: str, username: str) -> None:
    """Everybody may leave; maintainers remove others. One owner remains."""
    user = actor(request)
    project = get_project(user, project_id)
    actions.remove_member(actor=user, project=project, user=_member(project, username))


@router.get("/projects/{project_id}/invitations", response=Page[InvitationOut])
@operation(thing(Permission.INVITATIONS_READ))
def invitations(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> Page[Any]:
    return query.page(get_project(request, project_id).invitations.all(), list, sort="-created_at")


@router.post("/projects/{project_id}/invitations", response={201: NewInvitation})
@operation(thing(Permission.MEMBERS_MANAGE))
def invite(request: HttpRequest, project_id: str, body: InvitationIn, response: HttpResponse) -> NewInvitation:
    """The `secret` is shown once: `/invitations/<secret>/` is a link for one person until `expires_at`: for a week, and
    no longer than the token that asks for it, while its maker may invite to that role.
    Example: `{"role": "member", "email": "ada@example.org"}`"""
    project = get_project(request, project_id)
    invitation, secret = actions.invite(actor=actor(request), project=project, role=body.role, email=body.email)
    response["Cache-Control"] = "no-store"
    return NewInvitation(**dict(InvitationOut.from_orm(invitation)), secret=secret)


def _member(project: Project, username: str) -> User:
    found = project.members.filter(username=username).first()
    return or_not_found(found, f"There is no member {username!r} in {project.name}.")
