"""Experiments of MLflow: each project with all of its runs, and each group of runs that a client has made in one.

The experiment that MLflow calls 0 is the project ``default``.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from ninja import Schema
from ninja.errors import HttpError
from pydantic import BaseModel, Field

from runs.actions import mlflow as doing
from runs.api.auth import Resource, actor
from runs.api.mlflow.filters import fitting, quoted
from runs.finding.queries import condition
from runs.models import Experiment, Project, User
from runs.models.indexes import one_of
from runs.rights.access import NotFound, Permission, get_project, visible_projects
from runs.rights.access.operations import lists, operation, thing
from runs.values.refused import Refused

router = Resource(tags=["mlflow"])

MAX_FOUND = 50_000
INTO = "trainyard.project"  # the tag that names the project of a new experiment
SORTED_BY = ("name", "experiment_id", "creation_time", "last_update_time")


class Pair(BaseModel):  # 1,000 in a request: a Schema reads three times slower
    key: str
    value: str = ""


class NewExperiment(Schema):
    name: str = Field(min_length=1, max_length=500)
    artifact_location: str = ""  # artifacts are files of the runs, wherever the client would have them
    tags: list[Pair] = Field([], max_length=1000)


class ChangedExperiment(Schema):
    """What requests about an experiment may hold; each reads its own part."""

    experiment_id: str
    new_name: str = Field("", max_length=500)
    key: str = ""
    value: str = ""


class Search(Schema):
    filter: str = ""
    view_type: str = "ACTIVE_ONLY"
    max_results: int = Field(1000, ge=1, le=MAX_FOUND)
    order_by: list[str] = Field([])
    page_token: str = Field("", pattern=r"^\d{0,9}$")


class Place(NamedTuple):
    """Where runs of an experiment are: all of a project, or those of one of its groups."""

    project: Project
    experiment: Experiment | None = None

    @property
    def id(self) -> str:
        return self.experiment.pk if self.experiment else self.project.pk


def place_of(request: HttpRequest, experiment_id: str) -> Place:
    """Return what the experiment stands for, as the loader of projects lets the caller have it."""
    found = Experiment.objects.filter(pk=experiment_id).first()
    try:
        if found:
            return Place(get_project(request, found.project_id), found)
        return Place(get_project(request, "default" if experiment_id == "0" else experiment_id))
    except NotFound:
        raise NotFound(f"There is no experiment {experiment_id!r} that you can see.") from None


def runs_of(user: User, experiment_ids: Sequence[str]) -> Q:
    """Return the condition that a run is in one of them; of what the caller does not see there are none."""
    seen, names = visible_projects(user), ["default" if one == "0" else one for one in experiment_ids]
    whole = seen.filter(Q(pk__in=names) | Q(name__in=names)).values_list("pk", flat=True)
    found = one_of("project_id", list(whole))
    for one in Experiment.objects.filter(pk__in=names, project__in=seen):
        found |= Q(project_id=one.project_id) & condition(f"local.group = {quoted(one.name)}", timezone.now())
    return found


@router.post("/mlflow/experiments/create")
@operation(thing(Permission.RUNS_REPORT))
def create(request: HttpRequest, body: NewExperiment) -> Any:
    tags = {one.key: one.value for one in body.tags}
    project = get_project(request, tags.get(INTO) or "default")
    made = doing.create_experiment(actor=actor(request), project=project, name=body.name, tags=tags)
    return {"experiment_id": made.pk}


@router.get("/mlflow/experiments/get")
@operation(thing(Permission.PROJECTS_READ))
def show(request: HttpRequest, experiment_id: str) -> Any:
    return {"experiment": _document(place_of(request, experiment_id))}


@router.get("/mlflow/experiments/get-by-name")
@operation(thing(Permission.PROJECTS_READ))
def show_named(request: HttpRequest, experiment_name: str) -> Any:
    """A project of that name before an experiment, and of experiments in several projects the first that was made."""
    seen = visible_projects(actor(request))
    name = "default" if experiment_name == "Default" else experiment_name
    named = Experiment.objects.filter(name=name, project__in=seen).order_by("created_at")
    found = None if seen.filter(name=name).exists() else named.first()
    return {"experiment": _document(place_of(request, found.pk if found else name))}


@router.post("/mlflow/experiments/search")
@operation(lists(Permission.PROJECTS_READ))
def find(request: HttpRequest, body: Search) -> Any:
    """Those that the caller sees, the newest first."""
    seen = visible_projects(actor(request))
    groups = Experiment.objects.filter(project__in=seen).select_related("project")
    wanted = {"ACTIVE_ONLY": ("active",), "DELETED_ONLY": ("deleted",)}.get(body.view_type, ("active", "deleted"))
    fits = fitting(body.filter, SORTED_BY, _held)
    places = [*map(Place, seen), *(Place(one.project, one) for one in groups)]
    found = [one for one in map(_document, places) if one["lifecycle_stage"] in wanted and fits(one)]
    for field, is_down in reversed(_order(body.order_by)):
        found.sort(key=lambda one: one[field], reverse=is_down)
    start = int(body.page_token or 0)
    end = start + body.max_results
    return {"experiments": found[start:end], "next_page_token": str(end) if end < len(found) else None}


def _order(wanted: Sequence[str]) -> list[tuple[str, bool]]:
    found = []
    for one in wanted:
        words = one.split()
        field = words[0].removeprefix("attributes.").strip("`") if words else ""
        if field not in SORTED_BY or len(words) > 2 or (words[1:] and words[1].upper() not in ("ASC", "DESC")):
            raise HttpError(422, f"Invalid order_by: experiments have no order {one!r:.80}")
        found.append((field, words[1:] == ["DESC"] or words[1:] == ["desc"]))
    return [*found, ("creation_time", True), ("experiment_id", True)]


def _held(one: Any, kind: str, key: str) -> Any:
    return {tag["key"]: tag["value"] for tag in one["tags"]}.get(key) if kind == "tag" else one.get(key)


def _changing(path: str, do: Callable[[User, Experiment, ChangedExperiment], None]) -> None:
    """Add a route that changes the experiment which its body names. A project is changed on its own page."""

    def handle(request: HttpRequest, body: ChangedExperiment) -> Any:
        place = place_of(request, body.experiment_id)
        if place.experiment is None:
            raise Refused("is-a-project", f"Experiment {place.project.name} is a project, which has pages of its own.")
        do(actor(request), place.experiment, body)
        return {}

    handle.__name__ = f"{path.replace('-', '_')}_experiment"
    handle.__annotations__ = {"request": HttpRequest, "body": ChangedExperiment}
    router.post(f"/mlflow/experiments/{path}")(operation(thing(Permission.RUNS_REPORT))(handle))


for path, do in (
    ("update", lambda user, one, body: doing.change_experiment(actor=user, experiment=one, name=body.new_name)),
    ("delete", lambda user, one, _: doing.change_experiment(actor=user, experiment=one, is_archived=True)),
    ("restore", lambda user, one, _: doing.change_experiment(actor=user, experiment=one, is_archived=False)),
    ("set-experiment-tag",
     lambda user, one, body: doing.change_experiment(actor=user, experiment=one, tags={body.key: body.value})),
    ("delete-experiment-tag",
     lambda user, one, body: doing.change_experiment(actor=user, experiment=one, tags={body.key: None})),
):  # fmt: skip
    _changing(path, do)


def _document(place: Place) -> Any:
    project, one = place
    return {
        "experiment_id": place.id,
        "name": one.name if one else "Default" if project.name == "default" else project.name,
        "artifact_location": f"mlflow-artifacts:/{place.id}",
        "lifecycle_stage": "deleted" if one and one.archived_at else "active",
        "creation_time": milliseconds(one.created_at if one else project.created_at),
        "last_update_time": milliseconds(one.changed_at if one else project.created_at),
        "tags": [{"key": key, "value": text} for key, text in (one.tags if one else {}).items()],
    }


def milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
