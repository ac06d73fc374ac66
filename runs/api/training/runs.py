"""``/runs``: submitting, finding, and what one may ask of a run."""

from __future__ import annotations

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Body as InBody
from ninja import Field, Query, Router, Schema
from ninja import Status as Answer

from runs import actions
from runs.api.auth import actor
from runs.api.openapi import SPEC_OR_JOB, body_of
from runs.api.paging import MAX_LIMIT, Page, page
from runs.api.shapes import Body, RunOut
from runs.models import Run
from runs.presenting.listing import find_runs
from runs.presenting.runs import run_documents, single_document
from runs.rights.access import Permission, get_job, get_run, named_project
from runs.values.status import Status
from trainyard.contract.answers.runs import RunDocument
from trainyard.contract.base import JsonObject
from trainyard.spec import Problem, SpecError

router = Router(tags=["runs"])


class RunsQuery(Schema):
    status: list[Status] = Field([], description="one or more statuses")
    project: str | None = None
    tag: list[str] = Field([], description="runs that have all of these tags")
    q: str = Field("", max_length=200, description="part of a name, a tag or an id")
    archived: bool = False
    sort: Literal["created_at", "-created_at", "name", "-name", "status", "-status"] = "-created_at"
    cursor: str | None = None
    limit: int = Field(50, ge=1, le=MAX_LIMIT)


class Edit(Body):
    tags: list[str] | None = None
    notes: str | None = None


class Continue(Body):
    step: int | None = Field(None, ge=0, lt=2**62, description="of which checkpoint; absent: of the newest")
    overrides: dict[str, Any] = Field(default_factory=dict, description="path -> value, such as train.steps: 500")


class Resize(Body):
    nodes: int | None = Field(description="how many from now on; null: as many as its spec allows")


class Clone(Body):
    overrides: dict[str, Any] = Field(default_factory=dict, description="path -> value, such as train.steps: 500")


@router.post("/runs", response={201: RunOut}, openapi_extra=body_of(SPEC_OR_JOB), summary="Submit a run")
def submit(request: HttpRequest, document: InBody[JsonObject]) -> Answer[RunDocument]:
    """The body is a spec, or `{"job": id, "overrides": {path: value}}`."""
    user = actor(request)
    if "job" not in document:
        return Answer(201, _one(actions.submit_run(actor=user, document=document)))
    if unknown := sorted(document.keys() - {"job", "overrides"}):
        raise SpecError([Problem(name, "is not accepted beside a job; accepted: overrides") for name in unknown])
    overrides = document.get("overrides") or {}
    if not isinstance(document["job"], str) or not isinstance(overrides, dict):
        raise SpecError([Problem("job", "is the id of a job, and overrides a map of paths to values")])
    job = get_job(user, document["job"], Permission.RUNS_LAUNCH)
    return Answer(201, _one(actions.submit_run(actor=user, job=job, overrides=overrides)))


@router.get("/runs", response=Page[RunOut])
def find(request: HttpRequest, query: Query[RunsQuery]) -> Page[RunDocument]:
    user = actor(request)
    found = find_runs(
        user,
        status=query.status,
        project=named_project(user, query.project).pk if query.project else "",
        tags=query.tag,
        words=query.q,
        is_archived=query.archived,
    )
    return page(found, run_documents, sort=query.sort, cursor=query.cursor, limit=query.limit)


@router.get("/runs/{run_id}", response=RunOut)
def show(request: HttpRequest, run_id: str) -> RunDocument:
    return _one(get_run(actor(request), run_id))


@router.patch("/runs/{run_id}", response=RunOut, summary="Change tags or notes")
def edit(request: HttpRequest, run_id: str, body: Edit) -> RunDocument:
    user = actor(request)
    run = get_run(user, run_id, Permission.RUNS_ANNOTATE)
    if body.tags is not None:
        actions.tag_run(actor=user, run=run, tags=body.tags)
    if body.notes is not None:
        actions.note_run(actor=user, run=run, notes=body.notes)
    return _one(run)


@router.delete("/runs/{run_id}", response={204: None})
def delete(request: HttpRequest, run_id: str) -> Answer[None]:
    user = actor(request)
    actions.delete_run(actor=user, run=get_run(user, run_id, Permission.RUNS_DELETE))
    return Answer(204, None)


@router.post("/runs/{run_id}/stop", response=RunOut)
def stop(request: HttpRequest, run_id: str) -> RunDocument:
    user = actor(request)
    return _one(actions.stop_run(actor=user, run=get_run(user, run_id, Permission.RUNS_STOP)))


@router.post("/runs/{run_id}/restart", response=RunOut)
def restart(request: HttpRequest, run_id: str) -> RunDocument:
    user = actor(request)
    return _one(actions.restart_run(actor=user, run=get_run(user, run_id, Permission.RUNS_LAUNCH)))


@router.post("/runs/{run_id}/clone", response={201: RunOut})
def clone(request: HttpRequest, run_id: str, body: InBody[Clone | None] = None) -> Answer[RunDocument]:
    user = actor(request)
    overrides = body.overrides if body else {}
    run = get_run(user, run_id, Permission.RUNS_LAUNCH)
    return Answer(201, _one(actions.clone_run(actor=user, run=run, overrides=overrides)))


@router.post("/runs/{run_id}/continue", response={201: RunOut}, summary="Go on from a checkpoint as a new run")
def go_on(request: HttpRequest, run_id: str, body: InBody[Continue | None] = None) -> Answer[RunDocument]:
    user = actor(request)
    step, overrides = (body.step, body.overrides) if body else (None, {})
    run = get_run(user, run_id, Permission.RUNS_LAUNCH)
    return Answer(201, _one(actions.continue_run(actor=user, run=run, step=step, overrides=overrides)))


@router.post("/runs/{run_id}/archive", response=RunOut)
def archive(request: HttpRequest, run_id: str) -> RunDocument:
    user = actor(request)
    return _one(actions.archive_run(actor=user, run=get_run(user, run_id, Permission.RUNS_ANNOTATE)))


@router.post("/runs/{run_id}/unarchive", response=RunOut)
def unarchive(request: HttpRequest, run_id: str) -> RunDocument:
    user = actor(request)
    return _one(actions.unarchive_run(actor=user, run=get_run(user, run_id, Permission.RUNS_ANNOTATE)))


@router.post("/runs/{run_id}/give-up", response=RunOut, summary="End a run whose nodes are out of contact")
def give_up(request: HttpRequest, run_id: str) -> RunDocument:
    user = actor(request)
    return _one(actions.give_up_run(actor=user, run=get_run(user, run_id, Permission.RUNS_STOP)))


@router.post("/runs/{run_id}/pause", response=RunOut, summary="Save a checkpoint and free the slots")
def pause(request: HttpRequest, run_id: str) -> RunDocument:
    user = actor(request)
    return _one(actions.pause_run(actor=user, run=get_run(user, run_id, Permission.RUNS_STOP)))


@router.post("/runs/{run_id}/resume", response=RunOut, summary="Queue a paused run at its old place in line")
def resume(request: HttpRequest, run_id: str) -> RunDocument:
    user = actor(request)
    return _one(actions.resume_run(actor=user, run=get_run(user, run_id, Permission.RUNS_LAUNCH)))


@router.post("/runs/{run_id}/resize", response=RunOut, summary="Change the number of nodes of an elastic run")
def resize(request: HttpRequest, run_id: str, body: InBody[Resize]) -> RunDocument:
    user = actor(request)
    run = get_run(user, run_id, Permission.RUNS_LAUNCH)
    return _one(actions.resize_run(actor=user, run=run, nodes=body.nodes))


def _one(run: Run) -> RunDocument:
    return single_document(run)
