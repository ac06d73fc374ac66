"""Artifacts of MLflow: files of the run, through the proxy that its client knows as ``mlflow-artifacts``."""

from pathlib import PurePosixPath
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja.errors import HttpError

from runs.actions.mlflow import may_report
from runs.api.auth import Resource, actor
from runs.api.training import files
from runs.api.training.uploads import keyring_for
from runs.records.files import outputs
from runs.records.files.room import NoRoom, check_room
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing

router = Resource(tags=["mlflow"])


@router.put("/mlflow-artifacts/artifacts/{run_id}/{path:path}")
@operation(thing(Permission.RUNS_REPORT))
def store(request: HttpRequest, run_id: str, path: str) -> Any:
    run = get_run(request, run_id)
    may_report(actor(request), run)
    if (length := request.headers.get("Content-Length")) is None:
        raise HttpError(411, "An artifact is sent with its length.")
    try:
        check_room(run.pk, int(length))
        outputs.store(run.pk, path, request.read, "", keyring_for(run))
    except (ValueError, outputs.TooLarge) as error:
        raise HttpError(422, str(error)) from error
    except NoRoom as error:
        raise HttpError(413, str(error)) from error
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
