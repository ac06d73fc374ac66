"""``/projects/…/secrets`` and ``/me/secrets``: values go in and never come out."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import Items, ListQuery, Page, page_of
from runs.api.schemas import Body, Shown, schema_of
from runs.models import Secret
from runs.presenting.stamps import document_of
from runs.rights.access import Permission, get_project, get_run
from runs.rights.access.operations import ADMINISTRATOR, operation, own, thing
from runs.rights.secrets.delivery import uses_of
from trainyard.contract.answers import people as answers
from trainyard.contract.limits import MAX_SECRET_BYTES

router = Resource(tags=["secrets"])


class SecretIn(Body):
    value: str = Field(description=f"at most {MAX_SECRET_BYTES:,} bytes; it is shown to nobody again")


class UseOut(Schema):
    attempt: int = Field(validation_alias="attempt.number")
    name: str
    version: int
    personal: bool = Field(
        validation_alias="is_personal", description="of the person who launched the run, and not of the project"
    )
    node: str
    at: Shown


@router.get("/projects/{project_id}/secrets", response=page_of(answers.Secret), summary="Names, versions and times")
@operation(thing(Permission.SECRETS_READ))
def find(request: HttpRequest, project_id: str, query: Query[ListQuery]) -> "Page[answers.Secret]":
    rows = Secret.objects.filter(project=get_project(request, project_id)).select_related("created_by")
    return query.page(rows, _secrets, sort="name")


@router.put("/projects/{project_id}/secrets/{name}", response={204: None}, summary="Set a secret")
@operation(thing(Permission.SECRETS_WRITE))
def put(request: HttpRequest, project_id: str, name: str, body: SecretIn) -> None:
    """For maintainers. Runs that begin from now on get the new value; those that run keep what they have. Example:
    `{"value": "hf_…"}`"""
    actions.set_secret(actor=actor(request), project=get_project(request, project_id), name=name, value=body.value)


@router.delete("/projects/{project_id}/secrets/{name}", response={204: None}, summary="Forget a secret")
@operation(thing(Permission.SECRETS_WRITE))
def delete(request: HttpRequest, project_id: str, name: str) -> None:
    """With all its versions. Runs that name it cannot start any more."""
    actions.delete_secret(actor=actor(request), project=get_project(request, project_id), name=name)


@router.get("/me/secrets", response=page_of(answers.Secret), summary="My own: names, versions and times")
@operation(own(Permission.SECRETS_READ))
def find_own(request: HttpRequest, query: Query[ListQuery]) -> "Page[answers.Secret]":
    """Runs that you launch name them as `mine:NAME`."""
    return query.page(Secret.objects.filter(person=actor(request)).select_related("created_by"), _secrets, sort="name")


@router.put("/me/secrets/{name}", response={204: None}, summary="Set a secret of my own")
@operation(own(Permission.SECRETS_WRITE))
def put_own(request: HttpRequest, name: str, body: SecretIn) -> None:
    """Example: `{"value": "…"}`"""
    actions.set_secret(actor=actor(request), name=name, value=body.value)


@router.delete("/me/secrets/{name}", response={204: None}, summary="Forget a secret of my own")
@operation(own(Permission.SECRETS_WRITE))
def delete_own(request: HttpRequest, name: str) -> None:
    actions.delete_secret(actor=actor(request), name=name)


@router.get("/runs/{run_id}/secrets", response=Items[UseOut], summary="Versions that its attempts got", tags=["runs"])
@operation(thing(Permission.RUNS_READ))
def uses(request: HttpRequest, run_id: str) -> Any:
    return {"items": uses_of(get_run(request, run_id))}


@router.post("/secrets/rotate-key", response=schema_of(answers.Rotated), summary="Wrap all secrets with a new key")
@operation(ADMINISTRATOR)
def rotate_key(request: HttpRequest) -> answers.Rotated:
    """For administrators. Everything goes on meanwhile: older keys open until the last secret is wrapped anew."""
    done = actions.rotate_secrets_key(actor=actor(request))
    return answers.Rotated(sentence=done.sentence, versions=done.num_wrapped)


def _secrets(rows: Sequence[Secret]) -> list[answers.Secret]:
    return [document_of(row, answers.Secret.__annotations__) for row in rows]
