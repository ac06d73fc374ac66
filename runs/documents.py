"""The shape of what nodes send. A seal proves who sent a document, not that it makes sense: what has another shape than
workers.contract says is refused here, before any row holds it or any page reads it.

Unknown fields are left in, and missing ones are allowed, so that nodes of other versions are understood.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workers.contract import Document

MAX_ATTEMPTS = 10_000  # that have a folder on one node
MAX_DEPTH = 50
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

Seconds = Annotated[float, Field(ge=0, le=1e11)]  # Unix time; later than this no calendar has it
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Name = Annotated[str, Field(max_length=200)]
Id = Annotated[str, Field(max_length=40)]


class BadDocument(ValueError):
    """A document of another shape than the contract says; the message names the field and the value."""


class Shape(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class Gpu(Shape):
    index: Whole | None = None
    name: Name | None = None
    uuid: Name | None = None
    memory_bytes: Whole | None = None


class Cpu(Shape):
    model: Name | None = None
    count: Whole | None = None
    machine_count: Whole | None = None


class Inventory(Shape):
    hostname: Name | None = None
    platform: Name | None = None
    python: Name | None = None
    torch: Name | None = None
    cpu: Cpu | None = None
    memory_bytes: Whole | None = None
    disk_bytes: Whole | None = None
    slots: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    gpus: list[Gpu] | None = None
    driver: Name | None = None


class GpuHealth(Shape):
    index: Whole | None = None
    utilization_percent: float | None = None
    memory_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    temperature_c: float | None = None
    power_w: float | None = None


class Health(Shape):
    cpu_percent: float | None = None
    load: float | None = None
    memory_bytes: Whole | None = None
    memory_used_bytes: Whole | None = None
    disk_bytes: Whole | None = None
    disk_used_bytes: Whole | None = None
    network_received_bytes_per_s: float | None = None
    network_sent_bytes_per_s: float | None = None
    gpus: list[GpuHealth] | None = None


class Output(Shape):
    problem: Annotated[str, Field(max_length=1_000)] = ""
    num_refused: Annotated[int, Field(ge=0, lt=2**31)] = 0
    refused: Annotated[dict[Name, Annotated[str, Field(max_length=1_000)]], Field(max_length=100)] = {}
    is_sent: bool = False
    num_pending: Annotated[int, Field(ge=0, lt=2**31)] = 0
    pending: Annotated[dict[Name, Whole], Field(max_length=100)] = {}
    sending: Annotated[dict[Name, Whole], Field(max_length=100)] = {}


class ListedAttempt(Shape):
    run: Id
    fence: Whole
    phase: Name = ""
    is_done: bool = False
    output: Output | None = None


class Up(Shape):
    at: Seconds
    node: Id
    name: Name = ""
    version: Annotated[str, Field(max_length=40)] = ""
    address: Annotated[str, Field(max_length=120)] = ""
    inventory: Inventory | None = None
    health: Health | None = None
    attempts: Annotated[dict[Id, ListedAttempt], Field(max_length=MAX_ATTEMPTS)] = {}
    troubles: Annotated[dict[Id, str], Field(max_length=MAX_ATTEMPTS)] = {}
    inspecting: list[Id] = []


class RankError(Shape):
    type: str | None = None
    message: str | None = None
    traceback: str | None = None


class Rank(Shape):
    rank: Whole
    pid: Whole | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    exit_code: Whole | None = None
    signal: Whole | None = None
    error: RankError | None = None
    has_joined: bool = False
    group: Name | None = None
    waiting_since: Seconds | None = None
    has_listened: bool | None = None
    was_ended: bool = False
    exit_hang: bool = False


class Reason(Shape):
    code: Name = ""
    sentence: str = ""
    at: Seconds | None = None
    evidence: dict[str, Any] | None = None


class Report(Shape):
    at: Seconds
    attempt: Id
    run: Id
    fence: Whole
    node: Id
    phase: Name
    address: Annotated[str, Field(max_length=120)] | None = None
    port: Whole | None = None
    supervisor_pid: Whole | None = None
    reason: Reason | None = None
    ranks: list[Rank] = []
    producers: dict[Id, Whole] = {}
    is_leased: bool = False


def checked(shape: type[Shape], document: Any) -> Document:
    """Return ``document`` as a database can hold it. Raises BadDocument where it has not this shape."""
    cleaned = storable(document)
    try:
        shape.model_validate(cleaned)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "the document"
        raise BadDocument(f"{field}: {first['msg']} (it is {str(first['input'])[:100]!r})") from error
    assert isinstance(cleaned, dict)
    return cleaned


def storable(value: Any, depth: int = 0) -> Any:
    """Return the value without what no database takes: NUL and half of a surrogate pair in a text (a rank's last lines
    may hold anything), and numbers that are none. Raises BadDocument for what is nested too deeply."""
    if depth > MAX_DEPTH:
        raise BadDocument(f"it is nested deeper than {MAX_DEPTH}")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.replace("\0", REPLACEMENT).encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {storable(name): storable(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list):
        return [storable(one, depth + 1) for one in value]
    return value
