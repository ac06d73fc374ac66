"""``/projects/…/service-accounts``: owners of tokens that are nobody's."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page
from runs.api.people.tokens import AccountTokenIn, NewToken, TokenOut, new_token
from runs.api.schemas import Body, Shown
from runs.models import Membership, Project, Role, Token, User
from runs.rights.access import Permission, get_project, or_not_found
from runs.rights.access.operations import operation, thing

router = Resource(tags=["people"])


class AccountIn(Body):
    name: str = Field(min_length=1, max_length=60)
    role: Role = Role.MEMBER


class AccountOut(Schema):
    username: str = Field(validation_alias="user.username", description="the project's name, a dot, and its own")
    role: str
    created_at: Shown


@router.get("/projects/{project_id}/service-accounts", response=Page[AccountOut], summary="Service accounts")
@operation(thing(Permission.TOKENS_READ))
def find(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> Page[Any]:
    """Owners of tokens that are nobody's: they have a role in one project, and never sign in."""
    project = get_project(request, project_id)
    found = project.memberships.filter(user__service_of=project).select_related("user")
    return query.page(found, list, sort="created_at")


@router.post("/projects/{project_id}/service-accounts", response={201: AccountOut}, summary="Make a service account")
@operation(thing(Permission.TOKENS_MANAGE))
def create(request: HttpRequest, project_id: str, body: AccountIn) -> Membership:
    """For maintainers. Its `username` is the project's name, a dot, and `name`. Example: `{"name": "ci", "role":
    "member"}`"""
    project = get_project(request, project_id)
    account = actions.create_service_account(actor=actor(request), project=project, name=body.name, role=body.role)
    return project.memberships.select_related("user").get(user=account)


@router.delete("/projects/{project_id}/service-accounts/{username}", response={204: None}, summary="End it for good")
@operation(thing(Permission.TOKENS_MANAGE))
def close(request: HttpRequest, project_id: str, username: str) -> None:
    """Its tokens open nothing any more. What it launched keeps its name."""
    project = get_project(request, project_id)
    actions.close_service_account(actor=actor(request), account=_account(project, username))


@router.get("/projects/{project_id}/service-accounts/{username}/tokens", response=Page[TokenOut], summary="Its tokens")
@operation(thing(Permission.TOKENS_READ))
def tokens(request: HttpRequest, project_id: str, username: str, query: Query[ListQuery]) -> Page[Any]:
    project = get_project(request, project_id)
    found = Token.objects.filter(user=_account(project, username)).select_related("user")
    return query.page(found, list, sort="-created_at")


@router.post(
    "/projects/{project_id}/service-accounts/{username}/tokens", response={201: NewToken}, summary="Make it a token"
)
@operation(thing(Permission.TOKENS_MANAGE))
def create_token(
    request: HttpRequest, project_id: str, username: str, body: AccountTokenIn, response: HttpResponse
) -> NewToken:
    """As `POST /tokens`; it works in that project alone. `DELETE /tokens/{token_id}` revokes it. Example: `{"name":
    "nightly", "scopes": ["runs:launch", "runs:read"]}`"""
    user = actor(request)
    project = get_project(request, project_id)
    token, secret = actions.create_token(
        actor=user, user=_account(project, username), name=body.name, scopes=body.scopes, expires_at=body.expires_at
    )
    response["Cache-Control"] = "no-store"
    return new_token(token, secret)


def _account(project: Project, username: str) -> User:
    account = User.objects.filter(service_of=project, is_active=True, username=username).first()
    return or_not_found(account, f"Project {project.name} has no service account {username!r}.")
