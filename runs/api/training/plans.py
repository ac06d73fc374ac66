"""``/plans``: what a spec would cost, before it is launched, and the plans that would cost less."""

from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Body as InBody
from ninja import Field, Query, Schema

from runs.actions.estimates import plans_of, shown_run
from runs.api.auth import Resource, actor
from runs.api.machines.queue import StartOut, start_out
from runs.api.openapi import SPEC, body_of
from runs.presenting.measured import measured_of
from runs.presenting.stamps import stamp
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from trainyard.contract.base import JsonObject

router = Resource(tags=["plans"])


class PlansQuery(Schema):
    count: int = Field(3, ge=0, le=10, description="proposals, at most")


class RatesOut(Schema):
    is_measured: bool
    run: str | None = Field(description="the benchmark that measured them, where you see it")
    at: str | None


class ProposalOut(Schema):
    changes: dict[str, Any] = Field(description="path -> value, as overrides take it")
    sentence: str
    estimate: dict[str, Any]


class SmallerOut(Schema):
    changes: dict[str, Any] = Field(description="path -> value, as overrides take it")
    ranks: int
    in_s: float


class PlansOut(Schema):
    estimate: dict[str, Any]
    proposals: list[ProposalOut]
    nodes: list[str] = Field(description="for which it was worked out, in the order of the ranks")
    rates: RatesOut
    reason: str = Field(description="why it would wait; empty: it would start at once, on `nodes`")
    predicted_start: StartOut | None = Field(description="of a run that would wait; null where nobody can say")
    smaller: list[SmallerOut] = Field(description="half and a quarter of its data-parallel ranks, if they start sooner")


class RunPlanOut(Schema):
    predicted: dict[str, Any] | None = Field(description="when it was submitted; null where nobody could say")
    measured: dict[str, Any] | None = Field(description="by its ranks since; null where none reported anything")


@router.post("/plans", response=PlansOut, openapi_extra=body_of(SPEC), summary="Cost of a spec before launch")
@operation(thing(Permission.PROJECTS_READ))
def make(request: HttpRequest, document: InBody[JsonObject], query: Query[PlansQuery]) -> PlansOut:
    """The body is a spec. Nothing is written. `estimate` has the memory of each rank and the time of a step by part,
    each with `total` and the range `low` to `high`. `proposals` have `changes` as overrides. `rates` are assumed, or
    measured by a run (null if you cannot see it). 422 for scripts and benchmarks. Example: `?count=3 {"name": "hello",
    "task": {"recipe": "language-model"}}`"""
    user = actor(request)
    found = plans_of(user, document, count=query.count, now=timezone.now())
    known, start = found.costs.known, found.start
    return PlansOut(
        estimate=dict(found.costs.estimate.as_document()),
        proposals=[
            ProposalOut(changes=dict(one.changes), sentence=one.sentence, estimate=dict(one.estimate.as_document()))
            for one in found.costs.proposals
        ],
        nodes=[node.name for node in found.nodes],
        rates=RatesOut(is_measured=known.rates.is_measured, run=shown_run(user, known) or None, at=stamp(known.at)),
        reason=getattr(start.answer, "sentence", ""),
        predicted_start=start.at and start_out(*start.at[:3]),
        smaller=[SmallerOut(changes=one, ranks=ranks, in_s=at.expected) for one, ranks, at in start.smaller],
    )


@router.get("/runs/{run_id}/plan", response=RunPlanOut, summary="Predicted and measured")
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, run_id: str) -> RunPlanOut:
    """The prediction at submission and what the ranks measured, with equal fields, or null. `measured.communication`
    includes waiting for other ranks, of which `waiting` is for the slowest one."""
    run = get_run(request, run_id)
    measured = measured_of(run)
    return RunPlanOut(predicted=run.estimate, measured=None if measured is None else dict(measured))
