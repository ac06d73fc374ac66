"""``/runs``: submitting, finding, and what one may ask of a run."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from django.http import HttpRequest
from ninja import Body as InBody
from ninja import Field, Query

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.openapi import SPEC_OR_JOB, body_of
from runs.api.paging import MAX_LIMIT, ListQuery, Page
from runs.api.schemas import Body, RunOut
from runs.finding.queries import order_of
from runs.models import Run
from runs.presenting.listing import find_runs
from runs.presenting.runs import run_documents, single_document
from runs.rights.access import Permission, get_job, get_run, named_project
from runs.rights.access.operations import lists, operation, thing
from runs.values.status import Status
from trainyard.contract.answers.runs import RunDocument
from trainyard.contract.base import JsonObject
from trainyard.spec import Problem, SpecError
from trainyard.spec.values.fields import Priority

router = Resource(tags=["runs"])


SORT = "fields of the filters but `tag`, with commas between them. What has no value comes last"


class RunsQuery(ListQuery):
    status: list[Status] = Field([], description="one or more statuses")
    project: str | None = None
    tag: list[str] = Field([], description="runs that have all of these tags")
    q: str = Field("", max_length=200, description="part of a name, a tag or an id")
    archived: bool = False
    filter: str = Field("", description="the [language of filters](filters.md)")
    sort: str = Field("-created_at", max_length=500, description=SORT)
    limit: int = Field(50, ge=1, le=MAX_LIMIT)


class Edit(Body):
    tags: list[str] | None = None
    notes: str | None = None
    priority: Priority | None = Field(None, description="0 to 100, or high, normal, low")


class Continue(Body):
    step: int | None = Field(None, ge=0, lt=2**62, description="of which checkpoint; absent: of the newest")
    overrides: dict[str, Any] = Field(default_factory=dict, description="path -> value, such as train.steps: 500")


class Resize(Body):
    nodes: int | None = Field(description="how many from now on; null: as many as its spec allows")


class Move(Body):
    project: str


class Clone(Body):
    overrides: dict[str, Any] = Field(default_factory=dict, description="path -> value, such as train.steps: 500")


@router.post("/runs", response={201: RunOut}, openapi_extra=body_of(SPEC_OR_JOB), summary="Submit a run")
@operation(thing(Permission.RUNS_LAUNCH))
def submit(request: HttpRequest, document: InBody[JsonObject]) -> RunDocument:
    """The body is a spec, or `{"job": id, "overrides": {path: value}}`. Of an array the answer is the first run, whose
    first tag all of them have. Example: `{"name": "hello", "task": {"recipe":
    "language-model"}}`"""
    user = actor(request)
    if "job" not in document:
        return single_document(actions.submit_run(actor=user, document=document))
    if unknown := sorted(document.keys() - {"job", "overrides"}):
        raise SpecError([Problem(name, "is not accepted beside a job; accepted: overrides") for name in unknown])
    overrides = document.get("overrides") or {}
    if not isinstance(document["job"], str) or not isinstance(overrides, dict):
        raise SpecError([Problem("job", "is the id of a job, and overrides a map of paths to values")])
    job = get_job(user, document["job"], Permission.RUNS_LAUNCH)
    return single_document(actions.submit_run(actor=user, job=job, overrides=overrides))


@router.get("/runs", response=Page[RunOut])
@operation(lists(Permission.RUNS_READ))
def find(request: HttpRequest, query: Query[RunsQuery]) -> "Page[RunDocument]":
    """`sort` with `-` in front is reversed. Where the filter cannot be read, `errors` has the `position` of the
    character, from 0. Example: `?filter=status=FAILED&sort=-summary.val/loss.min`"""
    user = actor(request)
    project = named_project(user, query.project).pk if query.project else ""
    found = find_runs(
        user, status=query.status, project=project, tags=query.tag, words=query.q, fitting=query.filter,
        is_archived=query.archived,
    )  # fmt: skip
    return query.page(found, run_documents, sort=order_of(query.sort))


@router.get("/runs/{run_id}", response=RunOut)
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, run_id: str) -> RunDocument:
    return single_document(get_run(request, run_id))


@router.patch("/runs/{run_id}", response=RunOut, summary="Change tags, notes or its place in the queue")
@operation(thing(Permission.RUNS_ANNOTATE))
def edit(request: HttpRequest, run_id: str, body: Edit) -> RunDocument:
    """What is not named stays. Example: `{"tags": ["keep"], "notes": "the good one"}`"""
    user = actor(request)
    run = get_run(request, run_id)
    if body.tags is not None:
        actions.tag_run(actor=user, run=run, tags=body.tags)
    if body.notes is not None:
        actions.note_run(actor=user, run=run, notes=body.notes)
    if body.priority is not None:
        actions.set_priority(actor=user, run=run, priority=body.priority)
    return single_document(run)


@router.delete("/runs/{run_id}", response={204: None})
@operation(thing(Permission.RUNS_DELETE))
def delete(request: HttpRequest, run_id: str) -> None:
    """Only an ended run. Its points, logs and files go with it; nodes delete its checkpoints within a minute."""
    actions.delete_run(actor=actor(request), run=get_run(request, run_id))


class Verb(NamedTuple):
    action: Callable[..., Run]
    permission: Permission
    summary: str | None = None
    words: str | None = None


VERBS = {
    "stop": Verb(
        actions.stop_run,
        Permission.RUNS_STOP,
        words="Its ranks have `limits.grace` to save and end. A second request, a second or more later, kills them.",
    ),
    "pause": Verb(
        actions.pause_run,
        Permission.RUNS_STOP,
        "Save a checkpoint and free the slots",
        "A script gets SIGTERM. The run is `STOPPING`, then `PAUSED`, or `SUCCEEDED` if it finishes meanwhile. 409 for "
        "a recipe that trains without checkpoints.",
    ),
    "resume": Verb(
        actions.resume_run,
        Permission.RUNS_LAUNCH,
        "Queue a paused run at its old place in line",
        "A new attempt continues from its newest checkpoint.",
    ),
    "restart": Verb(
        actions.restart_run,
        Permission.RUNS_LAUNCH,
        words="Queue a failed or cancelled run again: the same run, a new attempt.",
    ),
    "archive": Verb(actions.archive_run, Permission.RUNS_ANNOTATE, words="Hide an ended run from the lists."),
    "unarchive": Verb(actions.unarchive_run, Permission.RUNS_ANNOTATE),
    "follow": Verb(actions.follow_run, Permission.RUNS_READ, "Get all kinds of notices of it, at each place of yours"),
    "mute": Verb(partial(actions.follow_run, is_muted=True), Permission.RUNS_READ, "Get no notices of it"),
    "unfollow": Verb(partial(actions.follow_run, is_muted=None), Permission.RUNS_READ, "Get what your rules say of it"),
    "give-up": Verb(
        actions.give_up_run,
        Permission.RUNS_STOP,
        "End a run whose nodes are out of contact",
        "A node that returns stops it.",
    ),
}


def _route(name: str, verb: Verb) -> None:
    """Add ``POST /runs/{id}/<verb>``: a call of an action that needs nothing but the run."""

    def do(request: HttpRequest, run_id: str) -> RunDocument:
        return single_document(verb.action(actor=actor(request), run=get_run(request, run_id)))

    do.__name__ = name.replace("-", "_")  # by which clients know the operation
    router.post(f"/runs/{{run_id}}/{name}", response=RunOut, summary=verb.summary, description=verb.words)(
        operation(thing(verb.permission))(do)
    )


for name, verb in VERBS.items():
    _route(name, verb)


@router.post("/runs/{run_id}/clone", response={201: RunOut})
@operation(thing(Permission.RUNS_LAUNCH))
def clone(request: HttpRequest, run_id: str, body: InBody[Clone | None] = None) -> RunDocument:
    """Queue a new run with the same spec. The body is optional. Example: `{"overrides": {"train.steps": 500}}`"""
    run, overrides = get_run(request, run_id), body.overrides if body else {}
    return single_document(actions.clone_run(actor=actor(request), run=run, overrides=overrides))


@router.post("/runs/{run_id}/continue", response={201: RunOut}, summary="Go on from a checkpoint as a new run")
@operation(thing(Permission.RUNS_LAUNCH))
def go_on(request: HttpRequest, run_id: str, body: InBody[Continue | None] = None) -> RunDocument:
    """The new run has the same spec. 422 for what cannot fit: another model, another cluster, no steps left. Example:
    `{"overrides": {"train.steps": 500}}`"""
    step, overrides = (body.step, body.overrides) if body else (None, {})
    made = actions.continue_run(actor=actor(request), run=get_run(request, run_id), step=step, overrides=overrides)
    return single_document(made)


@router.post("/runs/{run_id}/resize", response=RunOut, summary="Change the number of nodes of an elastic run")
@operation(thing(Permission.RUNS_LAUNCH))
def resize(request: HttpRequest, run_id: str, body: InBody[Resize]) -> RunDocument:
    """It saves a checkpoint, ends and goes on from there. 409 where `resources.nodes` is one number. Example:
    `{"nodes": 2}`"""
    return single_document(actions.resize_run(actor=actor(request), run=get_run(request, run_id), nodes=body.nodes))


@router.post("/runs/{run_id}/move", response=RunOut, summary="Put an ended run into another project")
@operation(thing(Permission.RUNS_DELETE))
def move(request: HttpRequest, run_id: str, body: InBody[Move]) -> RunDocument:
    """One needs what deletes it here and launches there. Trials stay with their sweep. Example: `{"project":
    "default"}`"""
    user = actor(request)
    run, project = get_run(request, run_id), named_project(user, body.project)
    return single_document(actions.move_run(actor=user, run=run, project=project))
