"""``POST /runs/{id}/points``: for whoever has numbers and no spool. Safe to repeat: batches are numbered."""

from threading import Lock
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Schema
from ninja.errors import HttpError, ValidationError
from pydantic import BaseModel, ConfigDict, FailFast, StringConstraints, TypeAdapter
from pydantic import ValidationError as Invalid

from runs import actions
from runs.api.auth import Resource
from runs.api.openapi import body_of
from runs.ingest.report import report_points
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from trainyard.contract.records import MAX_LABELS, MAX_NAME_CHARS, MAX_SEQUENCE, MAX_STEP

router = Resource(tags=["points"])

MAX_BODY_BYTES = 10 * 1024 * 1024
MAX_POINTS = 50_000  # in a batch
MAX_SHOWN = 80  # characters of a value that is refused
NO_CONTROL = "^[^\\x00-\\x1f\\x7f]*$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME_CHARS, pattern=NO_CONTROL)]
Text = Annotated[str, StringConstraints(max_length=MAX_NAME_CHARS, pattern=NO_CONTROL)]
_parsing = Lock()  # a body takes twenty times its size while it is parsed: one at a time, whoever sends how many


class PointIn(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: Name
    step: int = Field(ge=-MAX_STEP - 1, le=MAX_STEP)
    time: float | None = Field(default=None, allow_inf_nan=False, description="Unix seconds; absent: now")
    value: float | Literal["NaN", "Infinity", "-Infinity"]
    labels: dict[Text, Text] = Field(default={}, max_length=MAX_LABELS)


class PointsIn(BaseModel):
    """Batches of one producer are numbered 1, 2, 3, …; one that was sent before may be sent again."""

    model_config = ConfigDict(strict=True, extra="forbid")

    producer: str = Field(pattern=r"^[0-9a-f]{32}$", description="a random UUID of this sender, as 32 hex digits")
    sequence: int = Field(ge=1, lt=MAX_SEQUENCE)
    points: Annotated[list[PointIn], FailFast()] = Field(max_length=MAX_POINTS)  # the first that is wrong is named
    end: bool = Field(default=False, description="this producer will send nothing more")


class PointsOut(Schema):
    watermark: int = Field(description="every batch up to this one is stored")


_body = TypeAdapter(PointsIn)
_openapi = body_of(PointsIn.model_json_schema())


@router.post("/runs/{run_id}/points", response=PointsOut, openapi_extra=_openapi, summary="Store points")
@operation(thing(Permission.RUNS_REPORT))
def store_points(request: HttpRequest, run_id: str) -> Any:
    """For programs without a spool. Batches of a producer are numbered 1, 2, 3, …; a repeated one is stored once, one
    that comes too early gets 409 with `expected`. A batch has at most 50,000 points and 10 MiB, a name or label 500
    characters, a point 32 labels. One bad point refuses the batch. A run of `PUT /runs/local` is `RUNNING` while a
    batch comes every 30 s, `LOST` else, and over once each producer has sent `"end": true`, or the PUT names its
    `ended_at`. Example: `{"producer": "0123456789abcdef0123456789abcdef", "sequence": 1, "points": [{"name":
    "eval/score", "step": 10, "value": 0.5}]}`"""
    run = get_run(request, run_id)
    batch = _read(request)
    points = ((point.name, point.labels, point.step, point.time, float(point.value)) for point in batch.points)
    watermark = report_points(run, producer=batch.producer, sequence=batch.sequence, points=points, is_end=batch.end)
    actions.points_came(run)
    return {"watermark": watermark}


def _read(request: HttpRequest) -> PointsIn:
    """The body, read here and not by the framework: its size is refused by its own code, before it is parsed."""
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise HttpError(413, f"A batch has at most {MAX_BODY_BYTES} bytes.")
    try:
        with _parsing:
            return _body.validate_json(body)
    except Invalid as error:
        raise ValidationError(_reasons(error)) from error


def _reasons(error: Invalid) -> list[dict[str, Any]]:
    """Return what is wrong by field, as the framework has it, each with the value that is."""
    reasons: dict[tuple[int | str, ...], str] = {}
    values: dict[tuple[int | str, ...], str] = {}
    for one in error.errors(include_url=False, include_context=False):
        path = one["loc"]
        while path and str(path[-1]).startswith(("float", "literal[", "[key]")):  # which branch of the shape it was
            path = path[:-1]
        words = "Control characters are not accepted" if one["type"] == "string_pattern_mismatch" else one["msg"]
        reasons[path] = f"{reasons[path]}, or {words[0].lower()}{words[1:]}" if path in reasons else words
        is_last = one["type"] not in ("missing", "json_invalid") and not isinstance(one["input"], dict | list)
        text = repr(one["input"])
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text):,} characters)"
        values[path] = f"; it is {shown}" if is_last else ""
    return [
        {"loc": ("body", *(str(part)[:MAX_SHOWN] for part in path)), "msg": f"{words}{values[path]}"}
        for path, words in reasons.items()
    ]
