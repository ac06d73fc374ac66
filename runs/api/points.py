"""``POST /runs/{id}/points``: for whoever has numbers and no spool. Safe to repeat: batches are numbered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Router, Schema
from ninja.errors import HttpError, ValidationError
from pydantic import ConfigDict, StringConstraints, TypeAdapter
from pydantic import ValidationError as Invalid

from runs.access import get_run
from runs.api.auth import actor
from runs.api.problems import problem
from runs.ingest.records import MAX_LABELS, MAX_NAME, MAX_SEQUENCE, MAX_STEP
from runs.ingest.report import Gap, Taken, report_points
from runs.models import Role

router = Router(tags=["points"])

MAX_BODY_BYTES = 10 * 1024 * 1024
Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, StringConstraints(max_length=MAX_NAME)]


class PointIn(Schema):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: Name
    step: int = Field(ge=-MAX_STEP - 1, le=MAX_STEP)
    time: float | None = Field(default=None, allow_inf_nan=False, description="Unix seconds; absent: now")
    value: float | Literal["NaN", "Infinity", "-Infinity"]
    labels: dict[Text, Text] = Field(default={}, max_length=MAX_LABELS)


class PointsIn(Schema):
    """Batches of one producer are numbered 1, 2, 3, …; one that was sent before may be sent again."""

    model_config = ConfigDict(strict=True, extra="forbid")

    producer: str = Field(pattern=r"^[0-9a-f]{32}$", description="a random UUID of this sender, as 32 hex digits")
    sequence: int = Field(ge=1, lt=MAX_SEQUENCE)
    points: list[PointIn]
    end: bool = Field(default=False, description="this producer will send nothing more")


class PointsOut(Schema):
    watermark: int = Field(description="every batch up to this one is stored")


_body = TypeAdapter(PointsIn)
_openapi = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": PointsIn.model_json_schema()}}}
}


@router.post("/runs/{run_id}/points", response=PointsOut, openapi_extra=_openapi, summary="Store points")
def store_points(request: HttpRequest, run_id: str) -> Any:
    run = get_run(actor(request), run_id, Role.MEMBER)
    batch = _read(request)
    points = ((point.name, point.labels, point.step, point.time, float(point.value)) for point in batch.points)
    try:
        watermark = report_points(
            run, producer=batch.producer, sequence=batch.sequence, points=points, is_end=batch.end
        )
    except Taken as error:
        raise HttpError(409, str(error)) from error
    except Gap as gap:
        detail = f"Batches before {batch.sequence} are missing; {gap}."
        return problem(409, detail, code="gap", more={"expected": gap.expected})
    return {"watermark": watermark}


def _read(request: HttpRequest) -> PointsIn:
    """The body, read here and not by the framework: its size is refused by its own code, before it is parsed."""
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        raise HttpError(413, f"A batch has at most {MAX_BODY_BYTES} bytes.")
    try:
        return _body.validate_json(body)
    except Invalid as error:
        raise ValidationError(
            [{"loc": ("body", *one["loc"]), "msg": one["msg"], "type": one["type"]} for one in error.errors()]
        ) from error
