"""``/me/exports`` and ``/me/erase``: what belongs to a person, for them; and for administrators about others."""

from collections.abc import Sequence
from typing import Annotated

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from ninja import Field, Query, Schema
from pydantic import BeforeValidator

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page_of
from runs.api.schemas import Body, Shown, schema_of
from runs.api.streaming import LastingRight, file_response
from runs.models import ErasedPerson, PersonalExport, User
from runs.presenting.stamps import document_of
from runs.privacy.exporting import path_of
from runs.rights.access import NotFound, Permission, or_not_found
from runs.rights.access.operations import ADMINISTRATOR, operation, own
from trainyard.contract.answers import people as answers

router = Resource(tags=["people"])


class EraseIn(Body):
    confirm: str = Field(description="the user name of whoever is erased, typed again")
    with_runs: bool = Field(False, description="also delete the runs that they launched")


class ErasedOut(Schema):
    pseudonym: str = Field(description="what stands in the audit from now on")
    erased_at: Shown = Field(validation_alias="at")
    deleted_runs: Annotated[int, BeforeValidator(len)] = Field(validation_alias="runs")


@router.get("/me/exports", response=page_of(answers.Export), summary="Exports of what belongs to me")
@operation(own(Permission.ACCOUNT_READ))
def find(request: HttpRequest, query: Query[ListQuery]) -> "Page[answers.Export]":
    return query.page(PersonalExport.objects.filter(user=actor(request)), _exports, sort="-created_at")


@router.post(
    "/me/exports", response={202: schema_of(answers.Export)}, summary="Have an export made of what belongs to me"
)
@operation(own(Permission.ACCOUNT_MANAGE))
def create(request: HttpRequest) -> answers.Export:
    """409 within an hour of the last one."""
    return _exports([actions.request_export(actor=actor(request))])[0]


@router.get("/me/exports/{export_id}/file", response=None, summary="The export: a ZIP of JSON")
@operation(own(Permission.ACCOUNT_READ))
def download_export(request: HttpRequest, export_id: str) -> HttpResponseBase:
    """For the person that it is about alone: administrators do not get it either."""
    path = path_of(actions.get_export(actor=actor(request), export_id=export_id).pk)
    if not path.is_file():
        raise NotFound("The file of this export is not on this server any more.")
    right = LastingRight(request, lambda user: actions.get_export(actor=user, export_id=export_id))
    response = file_response(request, path, right)
    response["Cache-Control"] = "no-store"
    return response


@router.post("/me/erase", response=ErasedOut, summary="Erase me, for good")
@operation(own(Permission.ACCOUNT_MANAGE))
def erase_me(request: HttpRequest, body: EraseIn, response: HttpResponse) -> ErasedPerson:
    """It cannot be undone, and restoring a backup does not undo it. 409 says what has to be done first. Example:
    `{"confirm": "alice", "with_runs": false}`"""
    user = actor(request)
    response["Cache-Control"] = "no-store"  # nor is the answer kept: there is nobody it could be kept for
    return actions.erase_person(actor=user, user=user, confirm=body.confirm, with_runs=body.with_runs)


@router.post(
    "/people/{username}/exports", response={202: schema_of(answers.Export)}, summary="Have an export made for somebody"
)
@operation(ADMINISTRATOR)
def create_for(request: HttpRequest, username: str) -> answers.Export:
    """For administrators. The file is for the person alone."""
    return _exports([actions.request_export(actor=actor(request), user=_other(username))])[0]


@router.post("/people/{username}/erase", response=ErasedOut, summary="Erase somebody, for good")
@operation(ADMINISTRATOR)
def erase(request: HttpRequest, username: str, body: EraseIn) -> ErasedPerson:
    """For administrators. Example: `{"confirm": "alice"}`"""
    user = actor(request)
    return actions.erase_person(actor=user, user=_other(username), confirm=body.confirm, with_runs=body.with_runs)


def _other(username: str) -> User:
    return or_not_found(User.objects.filter(username=username).first(), f"There is no person {username!r}.")


def _exports(rows: Sequence[PersonalExport]) -> list[answers.Export]:
    return [document_of(row, answers.Export.__annotations__, rows=row.num_rows) for row in rows]
