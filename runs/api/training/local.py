"""``PUT /runs/local/{id}`` and ``POST /runs/{id}/frames``: what the SDK and `trainyard sync` send, safe to repeat."""

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Path
from ninja.errors import HttpError
from pydantic import AfterValidator, StringConstraints

from runs import actions
from runs.actions.local import SpoolProcess, Text, may_report
from runs.api.auth import Resource, actor
from runs.api.openapi import ANY_BYTES
from runs.api.schemas import Body, RunOut
from runs.ingest.report import store_frames, watermarks
from runs.presenting.runs import single_document
from runs.records.metrics.bulk import storable
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from runs.values.run_config import RunDescription
from trainyard.spec.values.fields import Name

router = Resource(tags=["points"])

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024  # the facts about MAX_PROCESSES
MAX_PROCESSES = 10_000

Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class LocalIn(Body):
    name: Name
    project: str | None = Field(None, max_length=60, description="absent: default, or where it was sent before")
    script: Text = ""
    host: Text = ""
    is_live: bool = Field(False, description="one of its processes is at work and sends this: the run's heartbeat")
    processes: dict[Id, SpoolProcess] = Field(default={}, max_length=MAX_PROCESSES)
    config: dict[str, Any] | None = Field(None, description="adds to what is there, by name; 1 MB in all")
    tags: list[Text] | None = None
    notes: Annotated[str, AfterValidator(storable)] | None = None
    group: Text | None = None
    job_type: Text | None = None


class LocalOut(Body):
    run: RunOut
    watermarks: dict[str, int] = Field(description="of each process: every frame up to this one is stored")


class FramesOut(Body):
    watermarks: dict[str, int] = Field(description="of each process in the request: go on behind this frame")


@router.put("/runs/local/{local_id}", response=LocalOut, summary="Make or find a run that was logged elsewhere")
@operation(thing(Permission.RUNS_REPORT))
def send_local_run(request: HttpRequest, local_id: Path[Id], body: LocalIn) -> LocalOut:
    """The same local id, 32 hex digits, is the same run. `watermarks` are the last stored frames of its processes. Its
    status is decided anew each time: `SUCCEEDED` once every process has ended, `FAILED` for an error, `LOST` while an
    end is missing. It has no cluster, attempts or nodes, and is not stopped, restarted or cloned. Of `config`, `tags`,
    `notes`, `group` and `job_type` stays what is not named. Example: `{"name": "at home", "script": "train.py",
    "host": "desk", "config": {"lr": 0.01}}`"""
    described = body.model_dump(include=set(RunDescription.__annotations__), exclude_none=True)
    run = actions.send_local_run(
        actor=actor(request),
        local_id=local_id,
        **body.model_dump(include={"name", "script", "host", "project", "is_live"}),
        processes=body.processes,
        description=RunDescription(**described) if described else None,
    )
    return LocalOut(run=RunOut.model_validate(single_document(run)), watermarks=watermarks(run))


@router.post("/runs/{run_id}/frames", response=FramesOut, openapi_extra=ANY_BYTES, summary="Store frames of a spool")
@operation(thing(Permission.RUNS_REPORT))
def send_frames(request: HttpRequest, run_id: str) -> FramesOut:
    """The body is frames of spools, byte for byte, of a run that was logged elsewhere; at most 4 MB. Repeats are stored
    once, those behind a gap refused. `watermarks` say where to continue. Example: `@frames.bin`"""
    run = get_run(request, run_id)
    may_report(actor(request), run)
    data = request.read(MAX_BODY_BYTES + 1)
    if len(data) > MAX_BODY_BYTES:
        raise HttpError(413, f"A request has at most {MAX_BODY_BYTES // 1024 // 1024} MB of frames.")
    return FramesOut(watermarks=store_frames(run, data))
