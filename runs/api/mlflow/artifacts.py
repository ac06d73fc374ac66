"""Artifacts of MLflow: files of the run, through the proxy that its client knows as ``mlflow-artifacts``."""

from pathlib import PurePosixPath
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from runs.api.auth import Resource
from runs.api.training import files
from runs.records.files import outputs
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing

router = Resource(tags=["mlflow"])


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
