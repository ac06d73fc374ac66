"""``/runs/{id}/attempts`` and ``/events``: what became of a run."""

from typing import Annotated, Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Query, Schema
from pydantic import BeforeValidator, ConfigDict

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import Items, ListQuery, Page
from runs.api.schemas import Body, Shown, schema_of
from runs.models import Attempt, Event
from runs.presenting.annex import AnnexFigure, annex_of
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from runs.values.columns import MetricAlarm
from runs.values.run_config import MAX_STEP_NOTE
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import Cause, CauseClass, HangFinding

router = Resource(tags=["runs"])


class PlacementOut(Schema):
    node: Shown
    node_rank: int
    first_rank: int
    num_ranks: int
    slots: Annotated[list[int], BeforeValidator(lambda held: [one.index for one in held])] = Field(
        validation_alias="held_slots"
    )
    phase: str
    reported_at: Shown | None
    image: str = Field(description="of the container that its ranks run in, with its digest; empty: they run in none")
    ranks: Annotated[list[dict[str, Any]], BeforeValidator(to_builtins)] = Field(validation_alias="reported.ranks")


class CauseOut(schema_of(Cause)):  # type: ignore[misc]  # its fields are those that are read
    """Why an attempt ended: what happened first, with what ranks elsewhere felt of it."""

    model_config = ConfigDict(populate_by_name=True)

    cause_class: str = Field(alias="class", description=f"one of {', '.join(CauseClass)}")


class HangOut(schema_of(HangFinding, without=("at", "is_of_lost_node"))):  # type: ignore[misc]  # as above
    """What keeps the ranks of an attempt."""


class AttemptOut(Schema):
    id: str
    number: int
    fence: int
    world_size: int
    created_at: Shown
    go_at: Shown | None
    contact_lost_at: Shown | None
    ended_at: Shown | None
    offered: list[dict[str, Any]] = Field(description="checkpoints to go on from, the newest first: run, step, fence")
    reason: dict[str, str]
    cause: Annotated[CauseOut | None, BeforeValidator(to_builtins)] = Field(
        validation_alias="known_cause", description="null: it goes on, or it succeeded"
    )
    hang: Annotated[HangOut | None, BeforeValidator(to_builtins)] = Field(
        validation_alias="known_hang", description="what keeps its ranks, or what they were ended for"
    )
    placements: list[PlacementOut]

    @staticmethod
    def resolve_offered(attempt: Attempt) -> Any:
        return (attempt.go or {}).get("checkpoints", [])

    @staticmethod
    def resolve_reason(attempt: Attempt) -> dict[str, str]:
        return {"code": attempt.reason_code, "sentence": attempt.reason_sentence}


class EventOut(Schema):
    id: int
    at: Shown
    code: str
    sentence: str
    attempt: Annotated[int | None, BeforeValidator(lambda attempt: attempt and attempt.number)]
    actor: Shown | None
    data: dict[str, Any]


class NoteIn(Body):
    step: int = Field(ge=0, le=2**63 - 1)
    text: str = Field(min_length=1, max_length=MAX_STEP_NOTE)


class AlarmOut(schema_of(MetricAlarm)):  # type: ignore[misc]  # as above
    """Values of a metric that broke a rule of `watch`, one after the other."""

    attempt: int


class AnnexFigureOut(schema_of(AnnexFigure)):  # type: ignore[misc]  # as above
    """A figure of the sheet."""


@router.get("/runs/{run_id}/annex-xi", response=list[AnnexFigureOut], summary="The EU AI Act's sheet of a training")
@operation(thing(Permission.RUNS_READ))
def annex(request: HttpRequest, run_id: str) -> list[AnnexFigure]:
    """Section 1, point 2 of Annex XI of Regulation (EU) 2024/1689, as far as a run measures it."""
    return annex_of(get_run(request, run_id), timezone.now())


@router.get("/runs/{run_id}/attempts", response=Page[AttemptOut], by_alias=True)
@operation(thing(Permission.RUNS_READ))
def attempts(request: HttpRequest, run_id: str, query: Query[ListQuery]) -> Page[Any]:
    """Each placement, with each node's last report on its ranks; `offered` are the checkpoints it could resume from.
    `cause` says why one ended: null while it goes on, and after a success. `hang` is what keeps its ranks, or what they
    were ended for."""
    found = get_run(request, run_id).attempts.prefetch_related("placements__node", "placements__held_slots")
    return query.page(found, list, sort="number")


@router.get("/runs/{run_id}/events", response=Page[EventOut])
@operation(thing(Permission.RUNS_READ))
def events(request: HttpRequest, run_id: str, query: Query[ListQuery]) -> Page[Any]:
    """The history in sentences, the oldest first."""
    return query.page(get_run(request, run_id).events.select_related("attempt", "actor"), list, sort="at")


@router.post("/runs/{run_id}/notes", response={201: EventOut}, summary="Write a note at a step")
@operation(thing(Permission.RUNS_ANNOTATE))
def note(request: HttpRequest, run_id: str, body: NoteIn) -> Event:
    """An event `note` of the run, with the step in its `data`; charts mark it there. Example: `{"step": 400, "text":
    "new data from here on"}`"""
    return actions.note_step(actor=actor(request), run=get_run(request, run_id), step=body.step, text=body.text)


@router.get("/runs/{run_id}/alarms", response=Items[AlarmOut], summary="Values that broke a rule on a metric")
@operation(thing(Permission.RUNS_READ))
def alarms(request: HttpRequest, run_id: str) -> Items[AlarmOut]:
    """Of `watch`. `first_step`, `last_step` and `num_values` are of the bad values in a row, `value` is the first of
    them, `usual` the median before it."""
    run = get_run(request, run_id)
    return Items(
        items=[
            AlarmOut(attempt=attempt.number, **to_builtins(one))
            for attempt in run.attempts.exclude(alarms=[]).order_by("number")
            for one in attempt.known_alarms
        ]
    )
