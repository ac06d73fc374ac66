"""``/jobs``: saved specs."""

from typing import Any

from django.http import HttpRequest
from ninja import Body as InBody
from ninja import Field, Query, Schema

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.openapi import SPEC, body_of
from runs.api.paging import MAX_LIMIT, NamedQuery, Page
from runs.api.schemas import Shown
from runs.models import Job
from runs.rights.access import Permission, get_job, visible_jobs
from runs.rights.access.operations import lists, operation, thing
from trainyard.contract.base import JsonObject

router = Resource(tags=["jobs"])


class JobsQuery(NamedQuery):
    limit: int = Field(50, ge=1, le=MAX_LIMIT)


class JobOut(Schema):
    id: str
    name: str
    project: Shown
    version: int
    created_by: Shown | None
    created_at: Shown
    spec: dict[str, Any]


@router.post("/jobs", response={201: JobOut}, openapi_extra=body_of(SPEC), summary="Save a spec under its name")
@operation(thing(Permission.JOBS_EDIT))
def save(request: HttpRequest, document: InBody[JsonObject]) -> Job:
    """The body is a spec. Under a name that exists it becomes the next version. Example: `@hello.json`"""
    return actions.save_job(actor=actor(request), document=document)


@router.get("/jobs", response=Page[JobOut])
@operation(lists(Permission.JOBS_READ))
def find(request: HttpRequest, query: Query[JobsQuery]) -> Page[Any]:
    user = actor(request)
    return query.page(query.among(user, visible_jobs(user).select_related("created_by")), list, sort="-created_at")


@router.get("/jobs/{job_id}", response=JobOut)
@operation(thing(Permission.JOBS_READ))
def show(request: HttpRequest, job_id: str) -> Job:
    return get_job(request, job_id)


@router.delete("/jobs/{job_id}", response={204: None}, summary="Forget a job with all its versions")
@operation(thing(Permission.JOBS_EDIT))
def delete(request: HttpRequest, job_id: str) -> None:
    """Its runs stay."""
    actions.delete_job(actor=actor(request), job=get_job(request, job_id))
