"""Runs of MLflow, and their artifacts: files of the run, through the proxy of ``mlflow-artifacts``."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Query, Schema
from ninja.errors import HttpError
from pydantic import BaseModel, Field

from runs import actions
from runs.actions import mlflow as doing
from runs.api.auth import Resource, actor
from runs.api.mlflow.experiments import Pair, milliseconds, place_of, runs_of
from runs.api.mlflow.filters import order, translated
from runs.api.paging import page
from runs.api.training import files
from runs.finding.queries import order_of
from runs.models import Experiment, Run, User
from runs.presenting.listing import find_runs
from runs.records.files import outputs
from runs.records.points.read import series_data, series_lists
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import lists, operation, thing
from runs.values.status import Status

router = Resource(tags=["mlflow"])

MAX_PAGE = 1000
YEAR_3000_MS = 32_503_680_000_000
ALL_POINTS = 10**9
MAX_TEXT = 1_048_576
STATUS = {Status.SUCCEEDED: "FINISHED", Status.FAILED: "FAILED", Status.CANCELLED: "KILLED", Status.QUEUED: "SCHEDULED"}
SHOWN = ("name", "notes", "spec", "config", "status", "created_at", "started_at", "ended_at", "archived_at",
         "project_id", "created_by__username")  # fmt: skip
VIEWS = {"DELETED_ONLY": True, "ALL": None}  # what is archived


class Metric(BaseModel):
    key: str = Field(min_length=1, max_length=500)
    value: float
    timestamp: int = Field(ge=-(2**62), le=2**62)  # ms
    step: int = Field(0, ge=-(2**63), lt=2**63)
    model_id: str = ""
    dataset_name: str = Field("", max_length=500)
    dataset_digest: str = Field("", max_length=64)


class RunIn(Schema):
    """What requests about a run may hold; each reads its own part. Times are in milliseconds."""

    run_id: str = ""
    run_uuid: str = ""
    experiment_id: str = "0"
    run_name: str = ""
    user_id: str = Field("", max_length=256)
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


class DatasetIn(Schema):
    name: str = Field(max_length=500)
    digest: str = Field(max_length=64)
    source_type: str = ""
    source: str = ""
    dataset_schema: str = Field("", alias="schema", max_length=MAX_TEXT)
    profile: str = Field("", max_length=MAX_TEXT)


class ModelIn(Schema):
    model_id: str = Field(max_length=100)
    step: int = 0


class InputIn(Schema):
    dataset: DatasetIn
    tags: list[Pair] = Field([], max_length=100)


class UsesIn(RunIn):
    """Datasets that a run reads, as its script describes them, and models that it reads and makes."""

    datasets: list[InputIn] = Field([], max_length=1000)
    models: list[ModelIn] = Field([], max_length=1000)


class Search(Schema):
    experiment_ids: list[str] = Field([])
    filter: str = ""
    run_view_type: str = "ACTIVE_ONLY"
    max_results: int = Field(MAX_PAGE, ge=1, le=50_000)
    order_by: list[str] = Field([])
    page_token: str | None = None


class HistoryQuery(Schema):
    metric_key: str
    run_id: str = ""
    run_uuid: str = ""
    max_results: int = Field(ALL_POINTS, ge=1)
    page_token: str = Field("", pattern=r"^\d{0,18}$")


@router.post("/mlflow/runs/create")
@operation(thing(Permission.RUNS_REPORT))
def create(request: HttpRequest, body: RunIn) -> Any:
    user, place = actor(request), place_of(request, body.experiment_id)
    tags = _texts(body.tags)
    name = body.run_name or tags.get(doing.NAME) or "mlflow run"
    began_at = body.start_time / 1000 or None
    run = doing.begin(actor=user, project=place.project, name=name, began_at=began_at, experiment=place.experiment)
    doing.tag(
        actor=user, run=run, tags={**tags, doing.NAME: name, **({doing.AUTHOR: body.user_id} if body.user_id else {})}
    )
    return {"run": document(run)}


@router.get("/mlflow/runs/get")
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, run_id: str = "", run_uuid: str = "") -> Any:
    return {"run": document(get_run(request, run_id or run_uuid))}


@router.get("/mlflow/metrics/get-history")
@operation(thing(Permission.RUNS_READ))
def history(request: HttpRequest, asked: Query[HistoryQuery]) -> Any:
    run, metric_key = get_run(request, asked.run_id or asked.run_uuid), asked.metric_key
    curves = series_data(run.pk, [metric_key], points=ALL_POINTS)["series"]
    found = [
        {"key": metric_key, "value": value, "timestamp": round(at * 1000), "step": step}
        for one in curves
        if not one["labels"]
        for value, at, step in zip(one["value"], one["time"], one["step"], strict=True)
    ]
    start = int(asked.page_token or 0)
    end = start + asked.max_results
    return {"metrics": found[start:end], "next_page_token": str(end) if end < len(found) else None}


@router.post("/mlflow/runs/search")
@operation(lists(Permission.RUNS_READ))
def search(request: HttpRequest, body: Search) -> Any:
    user = actor(request)
    fitting, own = translated(body.filter)
    runs = find_runs(user, fitting=fitting, is_archived=VIEWS.get(body.run_view_type, False))
    for key, has, texts in own:
        tagged = doing.tagged(key, texts)
        runs = runs.filter(pk__in=tagged) if has else runs.exclude(pk__in=tagged)
    if body.experiment_ids:
        runs = runs.filter(runs_of(user, body.experiment_ids))
    sort = order_of(order(body.order_by))
    runs = runs.select_related(None).select_related("created_by").only(*SHOWN)  # of a run's row a third
    found = page(runs, _documents, sort=sort, cursor=body.page_token, limit=min(body.max_results, MAX_PAGE))
    return {"runs": found.items, "next_page_token": found.next or ""}


def _writing(path: str, body: type[RunIn], do: Callable[[User, Run, Any], Any], wanted: Permission) -> None:
    """Add a route that changes the run which its body names."""

    def handle(request: HttpRequest, body: Any) -> Any:
        if not (body.run_id or body.run_uuid):
            raise HttpError(422, "Missing value for required parameter 'run_id'.")
        found = do(actor(request), get_run(request, body.run_id or body.run_uuid), body)
        return found if isinstance(found, dict) else {}

    handle.__name__ = path.replace("-", "_")
    handle.__annotations__ = {"request": HttpRequest, "body": body}
    router.post(f"/mlflow/runs/{path}")(operation(thing(wanted))(handle))


def _log(user: User, run: Run, metrics: Sequence[Metric], params: dict[str, str] | None = None) -> None:
    points = [doing.MlflowPoint(one.key, one.step, one.timestamp / 1000, one.value) for one in metrics]
    doing.log(actor=user, run=run, points=points, params=params)
    for one in metrics:
        if one.model_id and (fact := doing.model_fact(one.model_id)):
            fields = ("key", "timestamp", "step", "model_id", "dataset_name", "dataset_digest")
            value = one.value if math.isfinite(one.value) else json.dumps(one.value)
            said = {**{name: getattr(one, name) for name in fields}, "value": value, "run_id": run.pk}
            of = get_run(user, fact.run_id, Permission.RUNS_REPORT)
            doing.change_model(actor=user, run=of, model_id=one.model_id, metrics=[said])


def _log_batch(user: User, run: Run, body: RunIn) -> None:
    _log(user, run, body.metrics, _texts(body.params))
    if body.tags:
        doing.tag(actor=user, run=run, tags=_texts(body.tags))


def _update(user: User, run: Run, body: RunIn) -> Any:
    if body.run_name:
        doing.tag(actor=user, run=run, tags={doing.NAME: body.run_name})
    run = doing.end(actor=user, run=run, status=body.status, ended_at=body.end_time / 1000 or None)
    return {"run_info": document(run)["info"]}


for path, body, do in (
    ("update", RunIn, _update),
    ("log-batch", RunIn, _log_batch),
    ("log-metric", OneMetric, lambda user, run, one: _log(user, run, [one])),
    ("log-parameter", OnePair, lambda user, run, one: doing.log(actor=user, run=run, params={one.key: one.value})),
    ("set-tag", OnePair, lambda user, run, one: doing.tag(actor=user, run=run, tags={one.key: one.value})),
    ("delete-tag", OnePair, lambda user, run, one: doing.untag(actor=user, run=run, key=one.key)),
    ("outputs", UsesIn, lambda user, run, body: doing.add_uses(actor=user, run=run, model_outputs=_plain(body.models))),
    (
        "log-inputs",
        UsesIn,
        lambda user, run, body: doing.add_uses(
            actor=user, run=run, dataset_inputs=_plain(body.datasets), model_inputs=_plain(body.models)
        ),
    ),
):
    _writing(path, body, do, Permission.RUNS_REPORT)
# MLflow keeps what is deleted, too.
_writing("delete", RunIn, lambda user, run, _: actions.archive_run(actor=user, run=run), Permission.RUNS_ANNOTATE)
_writing("restore", RunIn, lambda user, run, _: actions.unarchive_run(actor=user, run=run), Permission.RUNS_ANNOTATE)


def _texts(pairs: Sequence[Pair]) -> dict[str, str]:
    return {one.key: one.value for one in pairs}


def _plain(found: Sequence[Schema]) -> list[Any]:
    return [one.model_dump(by_alias=True) for one in found]


def document(run: Run) -> Any:
    return _documents([run])[0]


def _documents(runs: Sequence[Run]) -> list[Any]:
    """Return the runs as MLflow has them; of a metric the newest value."""
    ids = [run.pk for run in runs]
    tags, uses = doing.facts_of(ids, doing.TAGS), doing.facts_of(ids, doing.USES)
    groups = Experiment.objects.filter(project__in={run.project_id for run in runs})
    places = {(one.project_id, one.name): one.pk for one in groups.filter(name__in={_group(run) for run in runs})}
    last: dict[str, list[Any]] = {run_id: [] for run_id in ids}
    for one in series_lists(ids):
        if not one["labels"]:
            last[one["run"]].append({"key": one["name"], "value": one["last"], "step": one["last_step"]})
    return [
        _with(run, places.get((run.project_id, _group(run)), run.project_id), tags.get(run.pk, {}), last[run.pk])
        | {"inputs": uses.get(run.pk, {}), "outputs": uses.get(run.pk, {})}  # MLflow's client takes its part of each
        for run in runs
    ]


def _group(run: Run) -> str:
    return str(run.spec.get("local", {}).get("group") or "")


def _with(run: Run, experiment_id: str, tags: dict[str, str], metrics: list[Any]) -> Any:
    tags = {**tags, doing.NAME: run.name, **({doing.NOTE: run.notes} if run.notes else {})}
    author = (
        tags.pop(doing.AUTHOR, "") or tags.get("mlflow.user") or (run.created_by.username if run.created_by else "")
    )
    info = {
        "run_id": run.pk,
        "run_uuid": run.pk,
        "run_name": run.name,
        "experiment_id": experiment_id,
        "user_id": author,
        "status": STATUS.get(Status(run.status), "RUNNING"),
        "start_time": milliseconds(run.started_at or run.created_at),
        "end_time": milliseconds(run.ended_at) if run.ended_at else None,
        "artifact_uri": f"mlflow-artifacts:/{run.pk}",
        "lifecycle_stage": "deleted" if run.archived_at else "active",
    }
    params = {key: str(value) for key, value in doing.flat(run.config).items()}
    pairs = {
        name: [{"key": key, "value": text} for key, text in found.items()]
        for name, found in (("params", params), ("tags", tags))
    }
    return {"info": info, "data": {"metrics": metrics, **pairs}}


@router.put("/mlflow-artifacts/artifacts/{run_id}/{path:path}")
@operation(thing(Permission.RUNS_REPORT))
def store(request: HttpRequest, run_id: str, path: str) -> Any:
    files.keep(request, run_id, path)
    return {}


@router.get("/mlflow-artifacts/artifacts/{run_id}/{path:path}")
@operation(thing(Permission.RUNS_READ))
def download(request: HttpRequest, run_id: str, path: str) -> HttpResponseBase:
    return files.download(request, run_id, path)


@router.get("/mlflow-artifacts/artifacts")
@operation(thing(Permission.RUNS_READ))
def find(request: HttpRequest, path: str) -> Any:
    """The first part of the path is the run."""
    run_id, _, folder = path.strip("/").partition("/")
    return {"files": _inside(get_run(request, run_id).pk, folder)}


def _inside(run_id: str, path: str) -> list[Any]:
    """Return what lies directly in the folder."""
    found: dict[str, Any] = {}
    for one in outputs.listing(run_id):
        name = PurePosixPath(one["path"])
        if path and not name.is_relative_to(path):
            continue
        first, *rest = name.relative_to(path).parts or ("",)
        if first:
            found[first] = {"path": first, "is_dir": bool(rest), **({} if rest else {"file_size": one["size_bytes"]})}
    return list(found.values())
