"""``/runs/{id}/attempts`` and ``/events``: what became of a run."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Query, Schema
from ninja import Status as Answer
from pydantic import ConfigDict

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import ListQuery, Page, page
from runs.api.schemas import Body
from runs.models import Attempt, Event, Placement
from runs.presenting.annex import AnnexFigure, annex_of
from runs.presenting.stamps import stamp
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from runs.values.run_config import MAX_STEP_NOTE
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import CauseClass

router = Resource(tags=["runs"])


class PlacementOut(Schema):
    node: str
    node_rank: int
    first_rank: int
    num_ranks: int
    slots: list[int]
    phase: str
    reported_at: str | None
    image: str = Field(description="of the container that its ranks run in, with its digest; empty: they run in none")
    ranks: list[dict[str, Any]]


class ConsequenceOut(Schema):
    sentence: str
    node: str
    rank: int | None


class CauseOut(Schema):
    """Why an attempt ended: what happened first, with what ranks elsewhere felt of it."""

    model_config = ConfigDict(populate_by_name=True)

    cause_class: str = Field(alias="class", description=f"one of {', '.join(CauseClass)}")
    sentence: str
    node: str = Field(description="empty: no node in particular")
    rank: int | None
    evidence: dict[str, Any]
    consequences: list[ConsequenceOut]


class RankStackOut(Schema):
    rank: int
    node: str
    state: str
    stack: str


class HangOut(Schema):
    kind: str
    sentence: str
    action: str
    acts: bool = Field(description="whether the attempt is ended for it")
    node: str
    rank: int | None
    collective: str
    line: str
    stacks: list[RankStackOut]


class AttemptOut(Schema):
    id: str
    number: int
    fence: int
    world_size: int
    created_at: str
    go_at: str | None
    contact_lost_at: str | None
    ended_at: str | None
    offered: list[dict[str, Any]] = Field(description="checkpoints to go on from, the newest first: run, step, fence")
    reason: dict[str, str]
    cause: CauseOut | None = Field(description="null: it goes on, or it succeeded")
    hang: HangOut | None = Field(description="what keeps its ranks, or what they were ended for")
    placements: list[PlacementOut]


class EventOut(Schema):
    id: int
    at: str
    code: str
    sentence: str
    attempt: int | None
    actor: str | None
    data: dict[str, Any]


class NoteIn(Body):
    step: int = Field(ge=0, le=2**63 - 1)
    text: str = Field(min_length=1, max_length=MAX_STEP_NOTE)


class AlarmOut(Schema):
    """Values of a metric that broke a rule of `watch`, one after the other."""

    attempt: int
    metric: str
    labels: dict[str, str]
    kind: str = Field(description="nan or spike")
    first_step: int
    last_step: int
    num_values: int
    value: float | None = Field(description="the first; null: it is no finite number")
    word: str
    usual: float | None = Field(description="the median before it")
    at: float = Field(description="Unix seconds")
    action: str
    sentence: str


class AlarmsOut(Schema):
    items: list[AlarmOut]


class AnnexFigureOut(Schema):
    point: str = Field(description="of Annex XI, section 1")
    name: str
    value: float | str | None
    unit: str
    basis: str = Field(description="measured, stated in or computed from the spec, estimated, or not measured")
    note: str


@router.get("/runs/{run_id}/annex-xi", response=list[AnnexFigureOut], summary="The EU AI Act's sheet of a training")
@operation(thing(Permission.RUNS_READ))
def annex(request: HttpRequest, run_id: str) -> list[AnnexFigure]:
    """Section 1, point 2 of Annex XI of Regulation (EU) 2024/1689, as far as a run measures it."""
    return annex_of(get_run(request, run_id), timezone.now())


@router.get("/runs/{run_id}/attempts", response=Page[AttemptOut], by_alias=True)
@operation(thing(Permission.RUNS_READ))
def attempts(request: HttpRequest, run_id: str, query: Query[ListQuery]) -> Page[AttemptOut]:
    """Each placement, with each node's last report on its ranks; `offered` are the checkpoints it could resume from.
    `cause` says why one ended: null while it goes on, and after a success. `hang` is what keeps its ranks, or what they
    were ended for."""
    found = get_run(request, run_id).attempts.prefetch_related("placements__node", "placements__held_slots")
    return page(found, _attempts, sort="number", cursor=query.cursor, limit=query.limit)


@router.get("/runs/{run_id}/events", response=Page[EventOut])
@operation(thing(Permission.RUNS_READ))
def events(request: HttpRequest, run_id: str, query: Query[ListQuery]) -> Page[EventOut]:
    """The history in sentences, the oldest first."""
    found = get_run(request, run_id).events.select_related("attempt", "actor")
    return page(found, _events, sort="at", cursor=query.cursor, limit=query.limit)


@router.post("/runs/{run_id}/notes", response={201: EventOut}, summary="Write a note at a step")
@operation(thing(Permission.RUNS_ANNOTATE))
def note(request: HttpRequest, run_id: str, body: NoteIn) -> Answer[EventOut]:
    """An event `note` of the run, with the step in its `data`; charts mark it there. Example: `{"step": 400, "text":
    "new data from here on"}`"""
    event = actions.note_step(actor=actor(request), run=get_run(request, run_id), step=body.step, text=body.text)
    return Answer(201, _events([event])[0])


@router.get("/runs/{run_id}/alarms", response=AlarmsOut, summary="Values that broke a rule on a metric")
@operation(thing(Permission.RUNS_READ))
def alarms(request: HttpRequest, run_id: str) -> AlarmsOut:
    """Of `watch`. `first_step`, `last_step` and `num_values` are of the bad values in a row, `value` is the first of
    them, `usual` the median before it."""
    run = get_run(request, run_id)
    return AlarmsOut(
        items=[
            AlarmOut(attempt=attempt.number, **to_builtins(one))
            for attempt in run.attempts.exclude(alarms=[]).order_by("number")
            for one in attempt.known_alarms
        ]
    )


def _attempts(rows: Sequence[Attempt]) -> list[AttemptOut]:
    return [
        AttemptOut(
            id=row.pk,
            number=row.number,
            fence=row.fence,
            world_size=row.world_size,
            created_at=stamp(row.created_at),
            go_at=stamp(row.go_at),
            contact_lost_at=stamp(row.contact_lost_at),
            ended_at=stamp(row.ended_at),
            offered=(row.go or {}).get("checkpoints", []),
            reason={"code": row.reason_code, "sentence": row.reason_sentence},
            cause=None if (cause := row.known_cause) is None else CauseOut.model_validate(to_builtins(cause)),
            hang=None if (hang := row.known_hang) is None else HangOut.model_validate(to_builtins(hang)),
            placements=[_placement(placement) for placement in row.placements.all()],
        )
        for row in rows
    ]


def _placement(placement: Placement) -> PlacementOut:
    return PlacementOut(
        node=placement.node.name,
        node_rank=placement.node_rank,
        first_rank=placement.first_rank,
        num_ranks=placement.num_ranks,
        slots=[slot.index for slot in placement.held_slots.all()],
        phase=placement.phase,
        reported_at=stamp(placement.reported_at),
        image=placement.image,
        ranks=[to_builtins(rank) for rank in placement.reported.ranks],
    )


def _events(rows: Sequence[Event]) -> list[EventOut]:
    return [
        EventOut(
            id=row.pk,
            at=stamp(row.at),
            code=row.code,
            sentence=row.sentence,
            attempt=row.attempt.number if row.attempt else None,
            actor=row.actor.username if row.actor else None,
            data=row.data,
        )
        for row in rows
    ]
