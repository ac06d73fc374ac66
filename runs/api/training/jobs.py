"""``/jobs``: saved specs."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from ninja import Body as InBody
from ninja import Field, Query, Schema
from ninja import Status as Answer

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.openapi import SPEC, body_of
from runs.api.paging import MAX_LIMIT, Page, page
from runs.models import Job
from runs.presenting.stamps import stamp
from runs.rights.access import Permission, get_job, named_project, visible_jobs
from runs.rights.access.operations import lists, operation, thing
from trainyard.contract.base import JsonObject

router = Resource(tags=["jobs"])


class JobsQuery(Schema):
    project: str | None = None
    name: str | None = None
    cursor: str | None = None
    limit: int = Field(50, ge=1, le=MAX_LIMIT)


class JobOut(Schema):
    id: str
    name: str
    project: str
    version: int
    created_by: str | None
    created_at: str
    spec: dict[str, Any]


@router.post("/jobs", response={201: JobOut}, openapi_extra=body_of(SPEC), summary="Save a spec under its name")
@operation(thing(Permission.JOBS_EDIT))
def save(request: HttpRequest, document: InBody[JsonObject]) -> Answer[JobOut]:
    """The body is a spec. Under a name that exists it becomes the next version. Example: `@hello.json`"""
    return Answer(201, _jobs([actions.save_job(actor=actor(request), document=document)])[0])


@router.get("/jobs", response=Page[JobOut])
@operation(lists(Permission.JOBS_READ))
def find(request: HttpRequest, query: Query[JobsQuery]) -> Page[JobOut]:
    found = visible_jobs(actor(request)).select_related("created_by")
    if query.project:
        found = found.filter(project=named_project(actor(request), query.project))
    if query.name:
        found = found.filter(name=query.name)
    return page(found, _jobs, sort="-created_at", cursor=query.cursor, limit=query.limit)


@router.get("/jobs/{job_id}", response=JobOut)
@operation(thing(Permission.JOBS_READ))
def show(request: HttpRequest, job_id: str) -> JobOut:
    return _jobs([get_job(request, job_id)])[0]


@router.delete("/jobs/{job_id}", response={204: None}, summary="Forget a job with all its versions")
@operation(thing(Permission.JOBS_EDIT))
def delete(request: HttpRequest, job_id: str) -> Answer[None]:
    """Its runs stay."""
    actions.delete_job(actor=actor(request), job=get_job(request, job_id))
    return Answer(204, None)


def _jobs(rows: Sequence[Job]) -> list[JobOut]:
    return [
        JobOut(
            id=row.pk,
            name=row.name,
            project=row.project.name,
            version=row.version,
            created_by=row.created_by.username if row.created_by else None,
            created_at=stamp(row.created_at),
            spec=row.spec,
        )
        for row in rows
    ]
