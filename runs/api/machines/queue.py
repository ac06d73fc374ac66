"""``/clusters/{id}/queue``, ``/projects/{id}/limits`` and ``/usage``: who waits, who may have what, and who had it."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone
from ninja import Field, Query, Schema
from pydantic import AwareDatetime, BeforeValidator

from runs import actions
from runs.api.auth import Resource, actor
from runs.api.paging import Items
from runs.api.schemas import Body, Shown
from runs.life.reconcile.placing import save_queue
from runs.models import Project
from runs.placing.admission import parts_of
from runs.placing.queue import queue_of
from runs.presenting.slot_usage import By, usage_of
from runs.presenting.stamps import stamp
from runs.rights import access
from runs.rights.access.operations import ADMINISTRATOR, lists, machine, operation, thing

router = Resource(tags=["clusters"])


class StartOut(Schema):
    at: str
    low: str = Field(
        description="with `high` the ends of a band that holds four of five: the first and last of nine "
        "plays of the queue, once 20 runs have started corrected by what came of theirs"
    )
    high: str


def start_out(*seconds: float) -> StartOut:
    """Return the first, the expected and the last Unix second of a start."""
    low, at, high = (stamp(one) for one in seconds)
    return StartOut(at=at, low=low, high=high)


Start = Annotated[StartOut | None, BeforeValidator(lambda found: found and start_out(found.low, found.at, found.high))]


class QueuedOut(Schema):
    run: str = Field(validation_alias="run.pk")
    name: str = Field(validation_alias="run.name")
    place: int = Field(description="from 1; runs that you do not see are counted")
    project: Shown = Field(validation_alias="run.project")
    priority: int = Field(validation_alias="run.priority", description="0 to 100, the highest first")
    reason: str = Field(validation_alias="run.reason_sentence")
    predicted_start: Start = Field(validation_alias="run.start_prediction", description="null where nobody can say")


class LimitsIn(Body):
    slots: int | None = Field(None, description="that it may hold at once, over all clusters; null: no limit")
    slots_per_person: int | None = Field(None, description="that each of its people may hold at once in it")
    runs_at_once: int | None = None
    guaranteed_slots: int = Field(0, description="of each cluster; others have them while it does not want them")
    weight: float = Field(1.0, description="its share beside those of others, or of its group: above 0")
    share_group: str = Field("", description="of projects, whose shares are one of the whole; empty: it has its own")
    group_weight: float | None = Field(None, description="of all projects of the group; null: as it is, or 1")
    slot_hours_month: float | None = Field(None, description="from the first of the month (UTC); null: no limit")
    budget_month: float | None = Field(
        None, description="by the clusters' prices of a slot-hour, as `cost` of `/usage`"
    )
    max_run_hours: float | None = Field(None, description="the most that `limits.time` of a spec may be")
    max_priority: int = Field(100, description="the highest that members may give their runs; maintainers go higher")


class LimitsOut(LimitsIn):
    held_slots: float
    num_runs: int = Field(description="that hold slots, or start again")
    used_slot_hours: float = Field(description="since the first of the month (UTC)")
    spent: float = Field(description="since then, on clusters that have a price")
    sentence: str = Field(description="from 80 % of a limit on")


class UsageQuery(Schema):
    since: AwareDatetime | None = Field(None, alias="from", description="30 days ago by default")
    until: AwareDatetime | None = Field(None, alias="to", description="now by default")
    by: By = Field("project", description="week: `2026-W48`, of ISO 8601 in UTC, the newest first")


class UsedOut(Schema):
    name: str
    slot_seconds: float
    idle_seconds: float = Field(description="slot-seconds in which slots were held and no step was trained")
    energy_joules: float
    energy_is: str = Field(description="measured, where all of it is of GPUs that have meters; else estimated")
    cost: float | None = Field(description="by the clusters' prices; null where one has none")


class UsageOut(Schema):
    since: str = Field(alias="from")
    until: str = Field(alias="to")
    items: list[UsedOut]


@router.get("/clusters/{cluster_id}/queue", response=Items[QueuedOut], summary="Runs that wait, in their order")
@operation(machine(access.Permission.CLUSTERS_READ))
def queue(request: HttpRequest, cluster_id: str) -> Any:
    """The first thousand, of which those that you see."""
    return {"items": queue_of(actor(request), access.get_cluster(request, cluster_id), timezone.now())}


@router.get("/clusters/{cluster_id}/queue/saved", response=dict[str, Any], summary="The queue, to be played elsewhere")
@operation(machine(access.Permission.CLUSTERS_MANAGE))
def saved(request: HttpRequest, cluster_id: str) -> dict[str, Any]:
    """All that the next round goes by. `trainyard manage replay_queue FILE` says what it decides, and why. People are
    numbers, and so are projects that you do not see."""
    cluster = access.get_cluster(request, cluster_id)
    seen = set(access.visible_projects(actor(request)).values_list("name", flat=True))
    found: dict[str, Any] = msgspec.to_builtins(save_queue(cluster, timezone.now()).without_names(seen), str_keys=True)
    return found


@router.get("/projects/{project_id}/limits", response=LimitsOut, summary="Its part of the clusters")
@operation(thing(access.Permission.PROJECTS_READ))
def limits(request: HttpRequest, project_id: str) -> LimitsOut:
    return _limits(access.get_project(request, project_id))


@router.put("/projects/{project_id}/limits", response=LimitsOut, summary="Give it its part of the clusters")
@operation(ADMINISTRATOR)
def set_limits(request: HttpRequest, project_id: str, body: LimitsIn) -> LimitsOut:
    """What is not named has no limit. What runs goes on. Example: `{"slots": 16, "guaranteed_slots": 8}`"""
    user = actor(request)
    return _limits(actions.set_limits(actor=user, project=access.get_project(user, project_id), **body.dict()))


@router.get("/usage", response=UsageOut, summary="Slots that were used, by project, person, cluster or week")
@operation(lists(access.Permission.RUNS_READ))
def usage(request: HttpRequest, query: Query[UsageQuery]) -> UsageOut:
    """Of the runs that you see. Example: `?from=2026-01-01T00:00:00Z&by=person`"""
    now = timezone.now()
    until = query.until or now
    since = query.since or until - timedelta(days=30)
    if since >= until:
        raise ValidationError({"from": f"{stamp(since)} is not before {stamp(until)}."})
    items = [
        UsedOut(energy_is="measured" if one.is_measured else "estimated", **one._asdict())
        for one in usage_of(actor(request), since, until, query.by, now)
    ]
    return UsageOut.model_validate({"from": stamp(since), "to": stamp(until), "items": items})


def _limits(project: Project) -> LimitsOut:
    part = parts_of(Project.objects.filter(pk=project.pk), timezone.now())[project.name]
    return LimitsOut(
        **{name: getattr(project, name) for name in actions.LIMITS},
        held_slots=part.held,
        num_runs=part.num_runs,
        used_slot_hours=part.used_hours,
        spent=part.spent,
        sentence=part.warning(project.name),
    )
