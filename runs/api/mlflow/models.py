"""Logged models of MLflow, kept as facts of the run that logged them."""

import time
import uuid
from typing import Any

from django.http import HttpRequest
from ninja import Field, Schema
from ninja.errors import HttpError

from runs.actions import mlflow as doing
from runs.actions.local import may_report
from runs.api.auth import Resource, actor
from runs.api.mlflow.experiments import Pair, place_of, runs_of
from runs.api.mlflow.filters import fitting
from runs.api.mlflow.tracking import document
from runs.models import Run
from runs.records.metrics.models import Fact
from runs.rights.access import NotFound, Permission, get_run, or_not_found, visible_runs
from runs.rights.access.operations import lists, operation, thing

router = Resource(tags=["mlflow"])
MAX_FOUND, CHUNK, MAX_CHUNKS = 1_000, 500, 40
FIELDS = {"name": "name", "model_type": "model_type", "status": "status", "source_run_id": "source_run_id",
          "creation_timestamp": "creation_timestamp_ms", "creation_time": "creation_timestamp_ms",
          "last_updated_timestamp": "last_updated_timestamp_ms"}  # fmt: skip


class DatasetOf(Schema):
    dataset_name: str
    dataset_digest: str = ""


class OrderBy(Schema):
    field_name: str
    ascending: bool = True


class ModelIn(Schema):
    """What requests about a model may hold; each reads its own part."""

    source_run_id: str = ""
    experiment_id: str = "0"
    name: str = Field("", max_length=500)
    model_type: str = ""
    status: str = ""
    params: list[Pair] = Field([], max_length=1000)
    tags: list[Pair] = Field([], max_length=1000)


class Search(Schema):
    experiment_ids: list[str] = Field([])
    filter: str = ""
    datasets: list[DatasetOf] = Field([], max_length=100)
    order_by: list[OrderBy] = Field([], max_length=20)
    max_results: int = Field(100, ge=1, le=MAX_FOUND)
    page_token: str = Field("", pattern=r"^\d{0,9}$")


@router.post("/mlflow/logged-models")
@operation(thing(Permission.RUNS_REPORT))
def create(request: HttpRequest, body: ModelIn) -> Any:
    """One without a run, or of a run that is not here, gets a run of its own, so that there is somebody whose it is."""
    user, model_id, now = actor(request), f"m-{uuid.uuid4().hex}", int(time.time() * 1000)
    name = body.name or f"model-{model_id[2:10]}"
    run = visible_runs(user).filter(pk=body.source_run_id).first()
    if run is None:
        place = place_of(request, body.experiment_id)
        run = doing.begin(actor=user, project=place.project, name=name, began_at=None, experiment=place.experiment)
        run = doing.end(actor=user, run=run, status="FINISHED", ended_at=None)
    may_report(user, run)
    info = {
        "model_id": model_id,
        "experiment_id": document(run)["info"]["experiment_id"],
        "name": name,
        "model_type": body.model_type,
        "source_run_id": body.source_run_id or run.pk,
        "status": "LOGGED_MODEL_PENDING",
        "creation_timestamp_ms": now,
        "last_updated_timestamp_ms": now,
        "artifact_uri": f"mlflow-artifacts:/{run.pk}/models/{model_id}",
        "tags": [one.model_dump() for one in body.tags],
    }
    model = {"info": info, "data": {"params": [one.model_dump() for one in body.params], "metrics": []}}
    doing.keep_fact(run, model_id, model)
    return {"model": model}


@router.post("/mlflow/logged-models/search")
@operation(lists(Permission.RUNS_READ))
def search(request: HttpRequest, body: Search) -> Any:
    """The newest first, where nothing else is wanted: of the site's 20,000 newest the first 1,000 that fit."""
    runs = visible_runs(actor(request))
    if body.experiment_ids:
        runs = runs.filter(runs_of(actor(request), body.experiment_ids))
    fits = fitting(body.filter, FIELDS, _held)
    wanted = [(one.dataset_name, one.dataset_digest) for one in body.datasets]
    found: list[Any] = []
    facts = Fact.objects.filter(name__startswith="m-").order_by("-pk")
    for _ in range(MAX_CHUNKS):
        chunk = list(facts[:CHUNK])
        if not chunk or len(found) >= MAX_FOUND:
            break
        seen = set(runs.filter(pk__in={fact.run_id for fact in chunk}).values_list("pk", flat=True))
        models = [fact.data for fact in chunk if fact.run_id in seen and doing.is_model(fact.data)]
        found += [one for one in models if fits(one) and (not wanted or _has_dataset(one, wanted))]
        facts = facts.filter(pk__lt=chunk[-1].pk)
    for by in reversed(body.order_by):
        found = _ordered(found, by)
    start = int(body.page_token or 0)
    end = start + body.max_results
    return {"models": found[start:end], "next_page_token": str(end) if end < len(found) else None}


@router.get("/mlflow/logged-models/{model_id}")
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, model_id: str) -> Any:
    return {"model": _found(request, model_id)[1]}


@router.delete("/mlflow/logged-models/{model_id}")
@operation(thing(Permission.RUNS_REPORT))
def delete(request: HttpRequest, model_id: str) -> Any:
    """Its files stay files of the run."""
    run, _ = _found(request, model_id)
    may_report(actor(request), run)
    Fact.objects.filter(run_id=run.pk, name=model_id).delete()
    return {}


@router.patch("/mlflow/logged-models/{model_id}")
@router.patch("/mlflow/logged-models/{model_id}/tags")
@router.post("/mlflow/logged-models/{model_id}/params")
@operation(thing(Permission.RUNS_REPORT))
def change(request: HttpRequest, model_id: str, body: ModelIn) -> Any:
    tags, params = ({one.key: one.value for one in pairs} for pairs in (body.tags, body.params))
    run = _found(request, model_id)[0]
    made = doing.change_model(
        actor=actor(request), run=run, model_id=model_id, status=body.status, tags=tags, params=params
    )
    return {"model": made}


@router.delete("/mlflow/logged-models/{model_id}/tags/{key}")
@operation(thing(Permission.RUNS_REPORT))
def delete_tag(request: HttpRequest, model_id: str, key: str) -> Any:
    run, model = _found(request, model_id)
    if key not in {one["key"] for one in model["info"]["tags"]}:
        raise NotFound(f"No tag with key {key!r:.80} in logged model {model_id}.")
    doing.change_model(actor=actor(request), run=run, model_id=model_id, tags={key: None})
    return {}


def _found(request: HttpRequest, model_id: str) -> tuple[Run, Any]:
    """Return the model and its run, as the loader of runs lets the caller have it."""
    fact = or_not_found(doing.model_fact(model_id), f"Logged model {model_id!r:.80} was not found.")
    return get_run(request, fact.run_id), fact.data


def _ordered(found: list[Any], by: OrderBy) -> list[Any]:
    """Return those that have the field in its order, and behind them the others."""
    kind, _, key = by.field_name.removeprefix("attributes.").rpartition(".")
    if kind != "metrics" and (kind or key not in FIELDS):
        raise HttpError(422, f"Invalid order_by: logged models have no order {by.field_name!r:.80}.")
    held = [(_held(one, kind.rstrip("s"), key), one) for one in found]
    having = [pair for pair in held if pair[0] is not None]
    having.sort(key=lambda pair: (isinstance(pair[0], str), pair[0]), reverse=not by.ascending)
    return [one for _, one in having] + [one for has, one in held if has is None]


def _held(one: Any, kind: str, key: str) -> Any:
    """Return what a model has; of a metric the newest value."""
    info, data = one["info"], one["data"]
    if kind == "":
        has = info.get(FIELDS[key])
        return has if isinstance(has, str | int) else None
    if kind == "metric":
        return {pair["key"]: float(pair["value"]) for pair in data["metrics"]}.get(key)
    return {pair["key"]: pair["value"] for pair in (info["tags"] if kind == "tag" else data["params"])}.get(key)


def _has_dataset(one: Any, wanted: list[tuple[str, str]]) -> bool:
    had = {(metric.get("dataset_name"), metric.get("dataset_digest")) for metric in one["data"]["metrics"]}
    return any((name, digest) in had or (not digest and name in {first for first, _ in had}) for name, digest in wanted)
