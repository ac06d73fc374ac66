"""``/sweeps``: searches over the fields of a spec."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Body as InBody
from ninja import Field, Query

from runs.api.auth import Resource, actor
from runs.api.openapi import SWEEP, body_of
from runs.api.paging import MAX_LIMIT, ListQuery, Page, page_of
from runs.api.schemas import Body, schema_of
from runs.models import Sweep
from runs.presenting.stamps import stamp
from runs.rights.access import Permission, get_sweep, named_project
from runs.rights.access.operations import lists, operation, thing
from runs.sweeps import actions, reading
from runs.sweeps.checking import preview
from runs.sweeps.scaling import scaling_of, start_scaling
from trainyard.contract.answers import sweeps as answers
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import SweepStatus

router = Resource(tags=["sweeps"])


class SweepsQuery(ListQuery):
    status: list[SweepStatus] = Field([], description="one or more statuses")
    project: str | None = None
    q: str = Field("", max_length=200, description="part of a name")
    limit: int = Field(50, ge=1, le=MAX_LIMIT)


SweepOut = schema_of(answers.Sweep)


class NewScaling(Body):
    spec: dict[str, Any]
    ranks: list[int] = Field(description="2 to 16 sizes")
    steps: int | None = Field(None, description="of each run; absent: as the spec says")
    weak: bool = Field(False, description="the batch of a rank stays the same, else the global batch")


class SweepChange(Body):
    space: dict[str, Any] = Field(default_factory=dict, description="path -> dimension, wider than it was")
    budget: dict[str, Any] = Field(default_factory=dict, description="fields of the budget")


class NewTrial(Body):
    parameters: dict[str, Any] = Field(description="path -> value")


class LaunchTrial(Body):
    number: int | None = Field(None, ge=0, description="of which trial; absent: of the best")
    seeds: int = Field(3, ge=1, le=20)


@router.post("/sweeps", response={201: SweepOut}, openapi_extra=body_of(SWEEP), summary="Start a sweep")
@operation(thing(Permission.SWEEPS_LAUNCH))
def start(request: HttpRequest, document: InBody[JsonObject]) -> answers.Sweep:
    """`base` is a spec, or `{"job": id}`. Example: `@sweep.json`"""
    return _one(actions.start_sweep(actor=actor(request), document=document))


@router.post(
    "/sweeps/preview",
    response=schema_of(answers.SweepPreview, "PreviewOut"),
    openapi_extra=body_of(SWEEP),
    summary="Cost of a sweep before launch",
)
@operation(thing(Permission.SWEEPS_LAUNCH))
def look_ahead(request: HttpRequest, document: InBody[JsonObject]) -> answers.SweepPreview:
    """The body is a sweep. Nothing is written. The answer has the number of trials, their cost by the planner, and
    those that cannot run. Example: `@sweep.json`"""
    return preview(actor(request), document)


@router.post("/sweeps/scaling", response={201: SweepOut}, summary="Start a scaling study")
@operation(thing(Permission.SWEEPS_LAUNCH))
def scale(request: HttpRequest, body: InBody[NewScaling]) -> answers.Sweep:
    """A sweep of the same job over numbers of ranks, one after another. What the cluster can never hold has failed from
    the start. Example: `{"spec": {"name": "hello", "task": {"recipe": "language-model"}}, "ranks": [1, 2]}`"""
    who = actor(request)
    return _one(start_scaling(actor=who, document=body.spec, ranks=body.ranks, steps=body.steps, is_weak=body.weak))


@router.get("/sweeps", response=page_of(answers.SweepItem, "SweepItem"))
@operation(lists(Permission.SWEEPS_READ))
def find(request: HttpRequest, query: Query[SweepsQuery]) -> "Page[answers.SweepItem]":
    user = actor(request)
    project = named_project(user, query.project).name if query.project else ""
    found = reading.sweeps_of(user, project=project, status=query.status, words=query.q)
    return query.page(found, lambda rows: [_item(one) for one in reading.summaries_of(rows)], sort="-created_at")


@router.get("/sweeps/{sweep_id}", response=SweepOut)
@operation(thing(Permission.SWEEPS_READ))
def show(request: HttpRequest, sweep_id: str) -> answers.Sweep:
    return _one(get_sweep(request, sweep_id))


@router.patch("/sweeps/{sweep_id}", response=SweepOut, summary="Widen the space, or change the budget")
@operation(thing(Permission.SWEEPS_LAUNCH))
def change(request: HttpRequest, sweep_id: str, body: InBody[SweepChange]) -> answers.Sweep:
    """In mid-sweep. A sweep that has ended goes on where its budget has trials left. Example: `{"budget": {"trials":
    3}}`"""
    sweep = get_sweep(request, sweep_id)
    return _one(actions.change_sweep(actor=actor(request), sweep=sweep, space=body.space, budget=body.budget))


@router.delete("/sweeps/{sweep_id}", response={204: None}, summary="Forget an ended sweep; its runs stay")
@operation(thing(Permission.SWEEPS_DELETE))
def delete(request: HttpRequest, sweep_id: str) -> None:
    actions.delete_sweep(actor=actor(request), sweep=get_sweep(request, sweep_id))


def _route(name: str, action: Callable[..., Sweep], summary: str | None = None) -> None:
    """Add ``POST /sweeps/{id}/<verb>``: a call of an action that needs nothing but the sweep."""

    def do(request: HttpRequest, sweep_id: str) -> answers.Sweep:
        return _one(action(actor=actor(request), sweep=get_sweep(request, sweep_id)))

    do.__name__ = name  # by which clients know the operation
    path = f"/sweeps/{{sweep_id}}/{name}"
    router.post(path, response=SweepOut, summary=summary)(operation(thing(Permission.SWEEPS_STOP))(do))


_route("stop", actions.stop_sweep)
_route("pause", actions.pause_sweep, "Launch no further trial for now")
_route("resume", actions.resume_sweep)


@router.post("/sweeps/{sweep_id}/trials", response={201: SweepOut}, summary="Try these parameters, too")
@operation(thing(Permission.SWEEPS_LAUNCH))
def add(request: HttpRequest, sweep_id: str, body: InBody[NewTrial]) -> answers.Sweep:
    """Example: `{"parameters": {"train.learning_rate": 0.02}}`"""
    sweep = get_sweep(request, sweep_id)
    actions.add_trial(actor=actor(request), sweep=sweep, parameters=body.parameters)
    return _one(sweep)


@router.post("/sweeps/{sweep_id}/trials/{number}/promote", response=SweepOut, summary="Let a pruned trial go on")
@operation(thing(Permission.SWEEPS_LAUNCH))
def promote(request: HttpRequest, sweep_id: str, number: int) -> answers.Sweep:
    """It goes on from its checkpoint, and is not pruned again."""
    sweep = get_sweep(request, sweep_id)
    actions.promote_trial(actor=actor(request), sweep=sweep, number=number)
    return _one(sweep)


@router.post(
    "/sweeps/{sweep_id}/launch",
    response={201: schema_of(answers.Launched)},
    summary="Launch a trial again with several seeds",
)
@operation(thing(Permission.SWEEPS_LAUNCH))
def launch(request: HttpRequest, sweep_id: str, body: InBody[LaunchTrial]) -> answers.Launched:
    """Example: `{"number": 0, "seeds": 2}`"""
    sweep = get_sweep(request, sweep_id)
    runs = actions.launch_again(actor=actor(request), sweep=sweep, number=body.number, seeds=body.seeds)
    return {"runs": [run.pk for run in runs]}


def _one(sweep: Sweep) -> answers.Sweep:
    return {
        **_item(reading.summary_of(sweep)),
        "spec": sweep.spec,
        "trials": reading.sweep_trials(sweep, timezone.now()),
        "front": reading.front_of(sweep),
        "scaling": scaling_of(sweep),
    }


def _item(one: reading.SweepSummary) -> answers.SweepItem:
    row, spec, counts, best = one
    objectives: list[answers.Objective] = [
        {"metric": goal.metric, "direction": goal.direction} for goal in spec.objectives
    ]
    return {
        "id": row.pk,
        "name": row.name,
        "project": row.project.name,
        "status": row.status,
        "reason": {"code": row.reason_code, "sentence": row.reason_sentence, "evidence": {}},
        **objectives[0],
        "objectives": objectives,
        "sampler": spec.sampler.name,
        "pruner": spec.pruner.name,
        "trials_total": spec.budget.trials,
        "counts": dict(counts),
        "best": None
        if best is None or best.value is None
        else {"number": best.number, "run": best.run_id, "value": best.value, "parameters": best.parameters},
        "created_by": row.created_by.username if row.created_by is not None else None,
        "created_at": stamp(row.created_at),
        "ended_at": stamp(row.ended_at),
    }
