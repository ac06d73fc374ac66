"""``/tokens`` and ``/me``: the person who is asking, and their API tokens."""

from datetime import datetime
from typing import Annotated, Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema
from pydantic import AliasChoices, AwareDatetime

from runs import actions
from runs.actions.people.sign_in import set_name
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page
from runs.api.schemas import Body, Shown
from runs.models import GroupRole, Membership, Role, Token, User
from runs.rights.access import Permission, is_administrator, or_not_found, strongest_roles, visible_projects
from runs.rights.access.operations import SIGNED_IN, operation, own, thing

router = Resource(tags=["people"])


class AccountTokenIn(Body):
    name: str = Field(min_length=1, max_length=80)
    scopes: list[str] | None = Field(None, description="such as runs:read; absent: all that its owner may")
    expires_at: AwareDatetime | None = None


class TokenIn(AccountTokenIn):
    projects: list[str] | None = Field(None, description="names or ids, where alone it works; absent: all of yours")


MadeBy = Annotated[
    str | None,
    Field(
        validation_alias=AliasChoices("made_by", "by_token_id"),
        description="id of the token that made it, with which it ends; null: a person did",
    ),
]


class TokenOut(Schema):
    id: str
    name: str
    user: Shown
    scopes: list[str] | None
    projects: list[str] | None = Field(
        validation_alias=AliasChoices("projects", "project_ids"), description="ids; null: all"
    )
    created_at: Shown
    last_used_at: Shown | None
    last_address: str
    expires_at: Shown | None
    revoked_at: Shown | None
    made_by: MadeBy


class TokensQuery(ListQuery):
    user: str = Field("", description="whose, by user name: for administrators; absent: one's own")


class Revoked(Schema):
    revoked: int


class NewToken(TokenOut):
    token: str = Field(description="shown this once")
    secret: str = Field(description="the same")


class Belonging(Schema):
    id: str
    name: str
    role: str


class QuietHoursShape(Body):
    begins: str = Field(description="such as 22:00")
    ends: str = Field(description="such as 07:00, on the next day where that is before `begins`")
    zone: str = Field(description="a time zone such as Europe/Berlin")
    spares_errors: bool = Field(False, description="errors are sent all the same")


class Me(Schema):
    username: str
    name: str
    email: str
    is_staff: bool
    projects: list[Belonging]
    quiet_hours: QuietHoursShape | None


class MeChange(Body):
    name: str = Field("", max_length=150)
    quiet_hours: QuietHoursShape | None = Field(
        None, description="as a whole, with `spares_errors` where errors are sent; null: none"
    )


@router.get("/me", response=Me)
@operation(SIGNED_IN)
def me(request: HttpRequest) -> Me:
    user = actor(request)
    own = Membership.objects.filter(user=user).values_list("project_id", "role")
    by_group = GroupRole.objects.filter(group__user=user).values_list("project_id", "role")
    roles = strongest_roles([*own, *by_group])
    return Me(
        username=user.username,
        name=str(user),
        email=user.email,
        is_staff=user.is_staff,
        projects=[
            Belonging(id=project.pk, name=project.name, role=Role.OWNER if user.is_superuser else roles(project.pk))
            for project in visible_projects(user)
        ],
        quiet_hours=user.quiet_hours,
    )


@router.patch("/me", response=Me, summary="Change what I am called, or my quiet hours")
@operation(own(Permission.ACCOUNT_MANAGE))
def change_me(request: HttpRequest, body: MeChange) -> Me:
    """What is not named stays. The name is shown in place of the user name, with which one signs in and which stays;
    empty, the user name is shown. 409 where a provider keeps it, 422 where another person is called so. Example:
    `{"name": "Ada Lovelace", "quiet_hours": {"begins": "22:00", "ends": "07:00", "zone": "Europe/Berlin"}}`"""
    user, hours = actor(request), body.quiet_hours or QuietHoursShape(begins="", ends="", zone="", spares_errors=False)
    with transaction.atomic():  # both, or neither
        if "quiet_hours" in body.model_fields_set:
            actions.set_quiet_hours(actor=user, **hours.dict())
        if "name" in body.model_fields_set:
            set_name(actor=user, name=body.name)
    return me(request)


@router.get("/tokens", response=Page[TokenOut])
@operation(own(Permission.ACCOUNT_READ))
def find(request: HttpRequest, query: Query[TokensQuery]) -> Page[Any]:
    found = actions.tokens_of(actor(request), _whose(request, query.user)).select_related("user")
    return query.page(found, list, sort="-created_at")


@router.post("/tokens", response={201: NewToken})
@operation(own(Permission.ACCOUNT_MANAGE))
def create(request: HttpRequest, body: TokenIn, response: HttpResponse) -> NewToken:
    """The `secret` (`token` is the same) is shown once. A token that makes a token gives no more than it has. A session
    that is older than a quarter of an hour makes none that lasts longer than 366 days. Example: `{"name": "ci",
    "scopes": ["runs:read", "runs:launch"], "projects": ["vision"], "expires_at": "2030-01-01T00:00:00Z"}`"""
    expires_at: datetime | None = body.expires_at
    token, secret = actions.create_token(
        actor=actor(request), name=body.name, scopes=body.scopes, projects=body.projects, expires_at=expires_at
    )
    response["Cache-Control"] = "no-store"
    return new_token(token, secret)


@router.delete("/tokens", response=Revoked, summary="Revoke all tokens of a person")
@operation(own(Permission.ACCOUNT_MANAGE))
def revoke_all(request: HttpRequest, user: str = "") -> Revoked:
    """One's own, this one too, or for administrators those of the person with that user name. Example: `?user=ann`"""
    return Revoked(revoked=actions.revoke_tokens(actor=actor(request), user=_whose(request, user)))


@router.delete("/tokens/{token_id}", response={204: None}, summary="Revoke a token")
@operation(thing(Permission.TOKENS_MANAGE, hides=True))
def revoke(request: HttpRequest, token_id: str) -> None:
    """An administrator may revoke anybody's."""
    actions.revoke_token(actor=actor(request), token_id=token_id)


def _whose(request: HttpRequest, username: str) -> User:
    """Return the person of that name, or who asks. For anybody but an administrator there are no others."""
    asking = actor(request)
    if username in ("", asking.username):
        return asking
    found = User.objects.filter(username=username).first() if is_administrator(asking) else None
    return or_not_found(found, f"There is no person {username!r} whose tokens you can see.")


def new_token(token: Token, secret: str) -> NewToken:
    return NewToken(**dict(TokenOut.from_orm(token)), token=secret, secret=secret)
