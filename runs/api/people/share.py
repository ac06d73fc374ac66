"""``/share``: links by which guests read a run, a comparison, a sweep or a report."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Field, Query, Schema
from pydantic import AwareDatetime

from runs.actions.sharing import revoke_share, share, thing_of
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page
from runs.api.schemas import Body, Shown
from runs.rights.access import Permission, get_shared_link, visible_shared_links
from runs.rights.access.operations import lists, operation, thing

router = Resource(tags=["projects"])


class ShareIn(Body):
    object: str = Field(
        max_length=65_536, description="`run/ID`, `sweep/ID`, `report/ID`, or `compare?…` as its address has it"
    )
    expires_at: AwareDatetime | None = Field(None, description="within a year; absent: in 30 days")


class ShareOut(Schema):
    id: str
    object: str = Field(description="of a comparison its runs, whatever filter found them")
    project: Shown
    created_by: Shown | None
    created_at: Shown
    expires_at: Shown
    revoked_at: Shown | None
    num_opened: int
    first_opened_at: Shown | None
    last_opened_at: Shown | None


class NewShare(ShareOut):
    url: str = Field(description="opens without an account; shown this once")


@router.get("/share", response=Page[ShareOut], summary="Links for guests")
@operation(lists(Permission.RUNS_READ))
def find(request: HttpRequest, query: Query[ListQuery], object: str = "") -> Page[Any]:
    """Those of the projects that one sees, or to the `object`; ended and revoked ones too. Example:
    `?object=run/abc123`"""
    found = visible_shared_links(request.user)
    if object:
        found = found.filter(object=thing_of(actor(request), object, Permission.RUNS_READ).name)
    return query.page(found, list, sort="-created_at")


@router.post("/share", response={201: NewShare}, summary="Share with guests")
@operation(thing(Permission.RUNS_SHARE))
def create(request: HttpRequest, body: ShareIn, response: HttpResponse) -> NewShare:
    """Whoever has the `url` reads this one thing, without an account, until the link ends or is revoked. Example:
    `{"object": "run/abc123"}`"""
    link, url = share(actor=actor(request), name=body.object, expires_at=body.expires_at)
    response["Cache-Control"] = "no-store"
    return NewShare(**dict(ShareOut.from_orm(link)), url=url)


@router.delete("/share/{share_id}", response={204: None}, summary="Revoke a link for guests")
@operation(thing(Permission.RUNS_SHARE))
def revoke(request: HttpRequest, share_id: str) -> None:
    """Whoever may share in the project may revoke, also what others made. The link then answers 410."""
    revoke_share(actor=actor(request), link=get_shared_link(request, share_id))
