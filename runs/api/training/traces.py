"""``/runs/{id}/trace``: a Chrome trace of the next steps, which comes to the run's files."""

from typing import Literal, cast

from django.http import HttpRequest
from ninja import Body as InBody
from ninja import Field

from runs import actions
from runs.actions.tracing import MAX_STEPS
from runs.api.auth import Resource, actor
from runs.api.schemas import Body, schema_of
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from trainyard.contract.answers.runs import Traced

router = Resource(tags=["runs"])

STEPS = 3


class TraceIn(Body):
    steps: int = Field(STEPS, ge=1, le=MAX_STEPS, description="how many steps, one after the other")
    ranks: Literal["all"] | list[int] = Field("all", description="all, or the numbers of some ranks")


@router.post("/runs/{run_id}/trace", response={202: schema_of(Traced, "TraceOut")}, summary="Trace the next steps")
@operation(thing(Permission.RUNS_LAUNCH))
def trace(request: HttpRequest, run_id: str, body: InBody[TraceIn | None] = None) -> Traced:
    """A training recipe traces the next steps for which the request reaches every rank in time. Each rank's trace
    becomes the run's file `traces/step-N.rank-R.json.gz`. 409 for a script, and while another trace is under way.
    Example: `{"steps": 3, "ranks": [0]}`"""
    asked = body or TraceIn(steps=STEPS, ranks="all")
    made = actions.trace_run(actor=actor(request), run=get_run(request, run_id), steps=asked.steps, ranks=asked.ranks)
    return cast(Traced, made._asdict())
