"""Experiments and runs of MLflow. The experiment that MLflow calls 0 is the project ``default``."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from ninja import Schema
from pydantic import BaseModel, Field

from runs import actions
from runs.actions import mlflow as doing
from runs.api.auth import Resource, actor
from runs.api.mlflow.filters import order, translated
from runs.api.paging import page
from runs.finding.queries import order_of
from runs.models import Project, Run, User
from runs.models.indexes import one_of
from runs.presenting.listing import find_runs
from runs.records.points.read import series_data, series_lists
from runs.rights.access import Permission, get_project, get_run, visible_projects
from runs.rights.access.operations import lists, operation, site, thing
from runs.values.status import Status

router = Resource(tags=["mlflow"])

MAX_PAGE = 1000
YEAR_3000_MS = 32_503_680_000_000
ALL_POINTS = 10**9
STATUS = {Status.SUCCEEDED: "FINISHED", Status.FAILED: "FAILED", Status.CANCELLED: "KILLED", Status.QUEUED: "SCHEDULED"}
VIEWS = {"DELETED_ONLY": True, "ALL": None}  # what is archived


class Pair(BaseModel):  # 1,000 in a request: a Schema reads three times slower
    key: str
    value: str = ""


class Metric(BaseModel):
    key: str = Field(min_length=1, max_length=500)
    value: float
    timestamp: int = Field(0, ge=-(2**62), le=2**62)  # ms
    step: int = Field(0, ge=-(2**63), lt=2**63)


class RunIn(Schema):
    """What requests about a run may hold; each reads its own part. Times are in milliseconds."""

    run_id: str = ""
    run_uuid: str = ""
    experiment_id: str = "0"
    run_name: str = ""
    status: str = ""
    start_time: int = Field(0, ge=0, lt=YEAR_3000_MS)
    end_time: int = Field(0, ge=0, lt=YEAR_3000_MS)
    metrics: list[Metric] = Field([], max_length=1000)
    params: list[Pair] = Field([], max_length=1000)
    tags: list[Pair] = Field([], max_length=1000)


class OneMetric(RunIn, Metric):
    """A metric of a run."""


class OnePair(RunIn, Pair):
    """A parameter or a tag of a run."""


class Search(Schema):
    experiment_ids: list[str] = Field([])
    filter: str = ""
    run_view_type: str = "ACTIVE_ONLY"
    max_results: int = Field(MAX_PAGE, ge=1)
    order_by: list[str] = Field([])
    page_token: str | None = None


class NewExperiment(Schema):
    name: str


@router.post("/mlflow/experiments/create")
@operation(site(Permission.PROJECTS_CREATE))
def create_experiment(request: HttpRequest, body: NewExperiment) -> Any:
    return {"experiment_id": actions.create_project(actor=actor(request), name=body.name).pk}


@router.get("/mlflow/experiments/get")
@operation(thing(Permission.PROJECTS_READ))
def show_experiment(request: HttpRequest, experiment_id: str) -> Any:
    return {"experiment": _experiment(get_project(request, project_of(experiment_id)))}


@router.get("/mlflow/experiments/get-by-name")
@operation(thing(Permission.PROJECTS_READ))
def named_experiment(request: HttpRequest, experiment_name: str) -> Any:
    name = "default" if experiment_name == "Default" else experiment_name
    return {"experiment": _experiment(get_project(request, name))}


@router.post("/mlflow/experiments/search")
@operation(lists(Permission.PROJECTS_READ))
def find_experiments(request: HttpRequest) -> Any:
    """All that the caller sees."""
    return {"experiments": [_experiment(one) for one in visible_projects(actor(request)).order_by("name")]}


@router.post("/mlflow/runs/create")
@operation(thing(Permission.RUNS_REPORT))
def create(request: HttpRequest, body: RunIn) -> Any:
    user, project = actor(request), get_project(request, project_of(body.experiment_id))
    tags = _texts(body.tags)
    name = body.run_name or tags.get(doing.NAME) or "mlflow run"
    run = doing.begin(actor=user, project=project, name=name, began_at=body.start_time / 1000 or None)
    doing.tag(actor=user, run=run, tags={**tags, doing.NAME: name})
    return {"run": _document(run)}


@router.get("/mlflow/runs/get")
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, run_id: str = "", run_uuid: str = "") -> Any:
    return {"run": _document(get_run(request, run_id or run_uuid))}


@router.get("/mlflow/metrics/get-history")
@operation(thing(Permission.RUNS_READ))
def history(request: HttpRequest, metric_key: str, run_id: str = "", run_uuid: str = "") -> Any:
    run = get_run(request, run_id or run_uuid)
    curves = series_data(run.pk, [metric_key], points=ALL_POINTS)["series"]
    return {
        "metrics": [
            {"key": metric_key, "value": value, "timestamp": round(at * 1000), "step": step}
            for one in curves
            if not one["labels"]
            for value, at, step in zip(one["value"], one["time"], one["step"], strict=True)
        ]
    }


@router.post("/mlflow/runs/search")
@operation(lists(Permission.RUNS_READ))
def search(request: HttpRequest, body: Search) -> Any:
    user = actor(request)
    runs = find_runs(user, fitting=translated(body.filter), is_archived=VIEWS.get(body.run_view_type, False))
    if wanted := [project_of(one) for one in body.experiment_ids]:
        named = visible_projects(user).filter(Q(pk__in=wanted) | Q(name__in=wanted))
        runs = runs.filter(one_of("project_id", list(named.values_list("pk", flat=True))))
    sort = order_of(order(body.order_by))
    found = page(runs, _documents, sort=sort, cursor=body.page_token, limit=min(body.max_results, MAX_PAGE))
    return {"runs": found.items, "next_page_token": found.next or ""}


def _writing(path: str, body: type[RunIn], do: Callable[[User, Run, Any], Any], wanted: Permission) -> None:
    """Add a route that changes the run which its body names."""

    def handle(request: HttpRequest, body: Any) -> Any:
        found = do(actor(request), get_run(request, body.run_id or body.run_uuid), body)
        return found if isinstance(found, dict) else {}

    handle.__name__ = path.replace("-", "_")
    handle.__annotations__ = {"request": HttpRequest, "body": body}
    router.post(f"/mlflow/runs/{path}")(operation(thing(wanted))(handle))


def _log_batch(user: User, run: Run, body: RunIn) -> None:
    doing.log(actor=user, run=run, points=_points(body.metrics), params=_texts(body.params))
    if body.tags:
        doing.tag(actor=user, run=run, tags=_texts(body.tags))


def _update(user: User, run: Run, body: RunIn) -> Any:
    if body.run_name:
        doing.tag(actor=user, run=run, tags={doing.NAME: body.run_name})
    run = doing.end(actor=user, run=run, status=body.status, ended_at=body.end_time / 1000 or None)
    return {"run_info": _document(run)["info"]}


for path, body, do in (
    ("update", RunIn, _update),
    ("log-batch", RunIn, _log_batch),
    ("log-metric", OneMetric, lambda user, run, one: doing.log(actor=user, run=run, points=_points([one]))),
    ("log-parameter", OnePair, lambda user, run, one: doing.log(actor=user, run=run, params={one.key: one.value})),
    ("set-tag", OnePair, lambda user, run, one: doing.tag(actor=user, run=run, tags={one.key: one.value})),
    ("delete-tag", OnePair, lambda user, run, one: doing.tag(actor=user, run=run, tags={one.key: None})),
    ("outputs", RunIn, lambda *_: None),  # that a run made a model is known from the model
    ("log-inputs", RunIn, lambda *_: None),  # descriptions of datasets stay tags of MLflow's
):
    _writing(path, body, do, Permission.RUNS_REPORT)
# MLflow keeps what is deleted, too.
_writing("delete", RunIn, lambda user, run, _: actions.archive_run(actor=user, run=run), Permission.RUNS_ANNOTATE)
_writing("restore", RunIn, lambda user, run, _: actions.unarchive_run(actor=user, run=run), Permission.RUNS_ANNOTATE)


def project_of(experiment_id: str) -> str:
    return "default" if experiment_id == "0" else experiment_id


def _texts(pairs: Sequence[Pair]) -> dict[str, str]:
    return {one.key: one.value for one in pairs}


def _points(metrics: Sequence[Metric]) -> list[doing.MlflowPoint]:
    return [doing.MlflowPoint(one.key, one.step, one.timestamp / 1000, one.value) for one in metrics]


def _experiment(project: Project) -> Any:
    return {
        "experiment_id": project.pk,
        "name": project.name,
        "artifact_location": f"mlflow-artifacts:/{project.pk}",
        "lifecycle_stage": "active",
        "creation_time": _ms(project.created_at),
    }


def _document(run: Run) -> Any:
    return _documents([run])[0]


def _documents(runs: Sequence[Run]) -> list[Any]:
    """Return the runs as MLflow has them; of a metric the newest value."""
    ids = [run.pk for run in runs]
    tags = doing.tags_of(ids)
    last: dict[str, list[Any]] = {run_id: [] for run_id in ids}
    for one in series_lists(ids):
        if not one["labels"]:
            last[one["run"]].append({"key": one["name"], "value": one["last"], "step": one["last_step"]})
    return [_with(run, tags.get(run.pk, {}), last[run.pk]) for run in runs]


def _with(run: Run, tags: dict[str, str], metrics: list[Any]) -> Any:
    tags = {**tags, doing.NAME: run.name, **({doing.NOTE: run.notes} if run.notes else {})}
    info = {
        "run_id": run.pk,
        "run_uuid": run.pk,
        "run_name": run.name,
        "experiment_id": run.project_id,
        "user_id": run.created_by.username if run.created_by else "",
        "status": STATUS.get(Status(run.status), "RUNNING"),
        "start_time": _ms(run.started_at or run.created_at),
        "end_time": _ms(run.ended_at) if run.ended_at else None,
        "artifact_uri": f"mlflow-artifacts:/{run.pk}",
        "lifecycle_stage": "deleted" if run.archived_at else "active",
    }
    params = {key: doing.as_text(value) for key, value in doing.flat(run.config).items()}
    pairs = {
        name: [{"key": key, "value": text} for key, text in found.items()]
        for name, found in (("params", params), ("tags", tags))
    }
    return {"info": info, "data": {"metrics": metrics, **pairs}}


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
