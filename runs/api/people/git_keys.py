"""``/projects/…/git-keys``: what opens a project's repositories. A secret goes in and never comes out."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page
from runs.api.schemas import Body, Shown
from runs.models import GitKey
from runs.rights.access import Permission, get_project
from runs.rights.access.operations import operation, thing

router = Resource(tags=["projects"])


class GitKeyIn(Body):
    kind: GitKey.Kind = Field(description="token for https, ssh for a private key")
    place: str = Field(description="a host, or a host and a path: github.com/team")
    secret: str = Field(description="the token, or the whole private key without a passphrase")
    user: str = Field("", description="that goes with a token; empty: git")
    host_keys: str = Field("", description="of ssh, as ssh-keyscan prints them; empty: the first that is seen")


class GitKeyOut(Schema):
    id: str
    kind: str
    place: str
    user: str
    host_keys: str
    created_by: Shown | None
    created_at: Shown
    used_at: Shown | None


@router.get("/projects/{project_id}/git-keys", response=Page[GitKeyOut])
@operation(thing(Permission.GIT_KEYS_READ))
def find(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> Page[Any]:
    return query.page(get_project(request, project_id).git_keys.select_related("created_by"), list, sort="place")


@router.post("/projects/{project_id}/git-keys", response={201: GitKeyOut}, summary="Add or replace a Git key")
@operation(thing(Permission.GIT_KEYS_MANAGE))
def add(request: HttpRequest, project_id: str, body: GitKeyIn) -> GitKey:
    """For maintainers. One for the same place is replaced. Example: `{"kind": "token", "place": "github.com/team",
    "user": "git", "secret": "…"}`"""
    return actions.add_git_key(actor=actor(request), project=get_project(request, project_id), **body.dict())


@router.delete("/projects/{project_id}/git-keys/{key_id}", response={204: None})
@operation(thing(Permission.GIT_KEYS_MANAGE))
def delete(request: HttpRequest, project_id: str, key_id: str) -> None:
    """Runs that were made with it stay as they are."""
    actions.delete_git_key(actor=actor(request), project=get_project(request, project_id), key_id=key_id)
