"""Logged models of MLflow, kept as facts of the run that logged them; and what a run took in and gave out."""

import re
import time
import uuid
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from ninja import Field, Schema
from ninja.errors import HttpError

from runs.actions.mlflow import keep_fact, may_report
from runs.api.auth import Resource, actor
from runs.api.mlflow.tracking import Pair, project_of
from runs.models import Run
from runs.records.metrics.models import Fact
from runs.rights.access import NotFound, Permission, get_run, visible_runs
from runs.rights.access.operations import lists, operation, thing

router = Resource(tags=["mlflow"])
MAX_FOUND = 1000
NAMED = re.compile(r"\s*(?:name\s*=\s*'([^']*)'\s*)?")
ID = re.compile(r"m-[0-9a-f]{32}")


class ModelIn(Schema):
    """What requests about a model may hold; each reads its own part."""

    source_run_id: str = ""
    experiment_ids: list[str] = Field([])
    filter: str = ""
    name: str = "model"
    model_type: str = ""
    status: str = ""
    params: list[Pair] = Field([])
    tags: list[Pair] = Field([])


@router.post("/mlflow/logged-models")
@operation(thing(Permission.RUNS_REPORT))
def create(request: HttpRequest, body: ModelIn) -> Any:
    """A model needs a run: without one there is nobody whose it is."""
    run = get_run(request, body.source_run_id)
    may_report(actor(request), run)
    model_id, now = f"m-{uuid.uuid4().hex}", int(time.time() * 1000)
    info = {
        "model_id": model_id,
        "experiment_id": run.project_id,
        "name": body.name,
        "model_type": body.model_type,
        "source_run_id": run.pk,
        "status": "LOGGED_MODEL_PENDING",
        "creation_timestamp_ms": now,
        "last_updated_timestamp_ms": now,
        "artifact_uri": f"mlflow-artifacts:/{run.pk}/models/{model_id}",
        "tags": _merged([], body.tags),
    }
    model = {"info": info, "data": {"params": _merged([], body.params), "metrics": []}}
    keep_fact(run, model_id, model)
    return {"model": model}


@router.post("/mlflow/logged-models/search")
@operation(lists(Permission.RUNS_READ))
def search(request: HttpRequest, body: ModelIn) -> Any:
    """The newest of the experiments."""
    named = NAMED.fullmatch(body.filter)
    if named is None:
        raise HttpError(422, f"Logged models are found by name = '…' alone, and the filter is {body.filter!r:.80}")
    of_name = Q() if named[1] is None else Q(data__info__name=named[1])
    facts = list(Fact.objects.filter(of_name, name__startswith="m-").order_by("-pk")[:MAX_FOUND])
    runs = visible_runs(actor(request)).filter(pk__in={fact.run_id for fact in facts})
    if body.experiment_ids:
        wanted = [project_of(one) for one in body.experiment_ids]
        runs = runs.filter(Q(project__in=wanted) | Q(project__name__in=wanted))
    seen = set(runs.values_list("pk", flat=True))
    return {"models": [fact.data for fact in facts if fact.run_id in seen]}


@router.get("/mlflow/logged-models/{model_id}")
@operation(thing(Permission.RUNS_READ))
def show(request: HttpRequest, model_id: str) -> Any:
    return {"model": _found(request, model_id)[1]}


@router.patch("/mlflow/logged-models/{model_id}")
@operation(thing(Permission.RUNS_REPORT))
def finalize(request: HttpRequest, model_id: str, body: ModelIn) -> Any:
    return _changed(request, model_id, body)


@router.patch("/mlflow/logged-models/{model_id}/tags")
@operation(thing(Permission.RUNS_REPORT))
def tag(request: HttpRequest, model_id: str, body: ModelIn) -> Any:
    return _changed(request, model_id, body)


@router.post("/mlflow/logged-models/{model_id}/params")
@operation(thing(Permission.RUNS_REPORT))
def add_params(request: HttpRequest, model_id: str, body: ModelIn) -> Any:
    return _changed(request, model_id, body)


def _changed(request: HttpRequest, model_id: str, body: ModelIn) -> Any:
    run, model = _found(request, model_id)
    may_report(actor(request), run)
    try:
        model["info"]["status"] = body.status or model["info"]["status"]
        model["info"]["tags"] = _merged(model["info"]["tags"], body.tags)
        model["data"]["params"] = _merged(model["data"]["params"], body.params)
    except (LookupError, TypeError):  # facts are a script's to name: this one is no model
        raise NotFound(f"There is no logged model {model_id!r} that you can see.") from None
    keep_fact(run, model_id, model)
    return {"model": model}


def _merged(known: list[Any], pairs: list[Pair]) -> list[Any]:
    found = {one["key"]: one["value"] for one in known} | {one.key: one.value for one in pairs}
    return [{"key": key, "value": value} for key, value in found.items()]


def _found(request: HttpRequest, model_id: str) -> tuple[Run, Any]:
    """Return the model and its run, as the loader of runs lets the caller have it."""
    fact = Fact.objects.filter(name=model_id).order_by("pk").first() if ID.fullmatch(model_id) else None
    if fact is None:
        raise NotFound(f"There is no logged model {model_id!r} that you can see.")
    return get_run(request, fact.run_id), fact.data
