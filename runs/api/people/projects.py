"""``/projects``, their members and invitations."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Field, Query, Schema
from ninja import Status as Answer

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page
from runs.api.schemas import Body, TimeOut
from runs.models import Invitation, Membership, Project, Role, Run, User
from runs.presenting.stamps import stamp
from runs.records.time_use.sums import time_of_all
from runs.rights.access import NotFound, Permission, get_project, visible_projects
from runs.rights.access.operations import lists, operation, site, thing

router = Resource(tags=["projects"])


class ProjectIn(Body):
    name: str


class ProjectOut(Schema):
    id: str
    name: str
    created_at: str


class ProjectWithTime(ProjectOut):
    time: TimeOut = Field(description="summed over its runs that live or ended within 30 days")


class MemberOut(Schema):
    username: str
    name: str
    role: str
    custom_role: str | None
    is_service: bool = Field(description="a service account of the project")
    since: str


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
    created_at: str
    expires_at: str
    accepted_at: str | None
    made_by: str | None = Field(description="id of the token that made it, with which it ends; null: a person did")


class NewInvitation(InvitationOut):
    secret: str = Field(description="shown this once")


@router.get("/projects", response=Page[ProjectOut])
@operation(lists(Permission.PROJECTS_READ))
def find(request: HttpRequest, query: Query[ListQuery]) -> Page[ProjectOut]:
    return page(visible_projects(actor(request)), _projects, sort="name", cursor=query.cursor, limit=query.limit)


@router.post("/projects", response={201: ProjectOut})
@operation(site(Permission.PROJECTS_CREATE))
def create(request: HttpRequest, body: ProjectIn) -> Answer[ProjectOut]:
    """For administrators and people with the permission "Can add project". Example: `{"name": "vision"}`"""
    return Answer(201, _projects([actions.create_project(actor=actor(request), name=body.name)])[0])


@router.get("/projects/{project_id}", response=ProjectWithTime)
@operation(thing(Permission.PROJECTS_READ))
def show(request: HttpRequest, project_id: str) -> ProjectWithTime:
    """With `time`, summed over its runs that live or ended within 30 days, at most a minute old."""
    project = get_project(request, project_id)
    time = time_of_all(Run.objects.filter(project=project), timezone.now()).as_document()
    return ProjectWithTime(**_projects([project])[0].dict(), time=TimeOut(**time))


@router.get("/projects/{project_id}/members", response=Page[MemberOut])
@operation(thing(Permission.MEMBERS_READ))
def members(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> Page[MemberOut]:
    found = get_project(request, project_id).memberships.select_related("user", "custom_role")
    return page(found, _members, sort="created_at", cursor=query.cursor, limit=query.limit)


@router.put("/projects/{project_id}/members/{username}", response=MemberOut, summary="Give a member another role")
@operation(thing(Permission.MEMBERS_MANAGE))
def change_role(request: HttpRequest, project_id: str, username: str, body: RoleIn) -> MemberOut:
    """You give, and take, no more than you may yourself. Example: `{"role": "maintainer"}`"""
    user = actor(request)
    project = get_project(request, project_id)
    custom = actions.custom_role_of(project, body.custom_role) if body.custom_role else None
    member = _member(project, username)
    membership = actions.change_role(actor=user, project=project, user=member, role=body.role, custom_role=custom)
    return _members([membership])[0]


@router.delete("/projects/{project_id}/members/{username}", response={204: None})
@operation(thing(Permission.MEMBERS_MANAGE))
def remove_member(request: HttpRequest, project_id: str, username: str) -> Answer[None]:
    """Everybody may leave; maintainers remove others. One owner remains."""
    user = actor(request)
    project = get_project(user, project_id)
    actions.remove_member(actor=user, project=project, user=_member(project, username))
    return Answer(204, None)


@router.get("/projects/{project_id}/invitations", response=Page[InvitationOut])
@operation(thing(Permission.INVITATIONS_READ))
def invitations(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> Page[InvitationOut]:
    found = get_project(request, project_id).invitations.all()
    return page(found, _invitations, sort="-created_at", cursor=query.cursor, limit=query.limit)


@router.post("/projects/{project_id}/invitations", response={201: NewInvitation})
@operation(thing(Permission.MEMBERS_MANAGE))
def invite(request: HttpRequest, project_id: str, body: InvitationIn, response: HttpResponse) -> Answer[NewInvitation]:
    """The `secret` is shown once: `/invitations/<secret>/` is a link for one person within a week, valid while its
    maker may invite to that role. Example: `{"role": "member", "email": "ada@example.org"}`"""
    project = get_project(request, project_id)
    invitation, secret = actions.invite(actor=actor(request), project=project, role=body.role, email=body.email)
    response["Cache-Control"] = "no-store"
    return Answer(201, NewInvitation(**dict(_invitations([invitation])[0]), secret=secret))


def _member(project: Project, username: str) -> User:
    user = project.members.filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no member {username!r} in {project.name}.")
    return user


def _projects(rows: Sequence[Project]) -> list[ProjectOut]:
    return [ProjectOut(id=row.pk, name=row.name, created_at=stamp(row.created_at)) for row in rows]


def _members(rows: Sequence[Membership]) -> list[MemberOut]:
    return [
        MemberOut(
            username=row.user.username,
            name=str(row.user),
            role=row.role,
            custom_role=row.custom_role.name if row.custom_role else None,
            is_service=row.user.is_service,
            since=stamp(row.created_at),
        )
        for row in rows
    ]


def _invitations(rows: Sequence[Invitation]) -> list[InvitationOut]:
    return [
        InvitationOut(
            id=row.pk,
            role=row.role,
            email=row.email,
            created_at=stamp(row.created_at),
            expires_at=stamp(row.expires_at),
            accepted_at=stamp(row.accepted_at),
            made_by=row.by_token_id,
        )
        for row in rows
    ]
