"""Shapes that several resources share."""

from __future__ import annotations

from typing import Any

from ninja import Field, Schema
from pydantic import ConfigDict


class Body(Schema):
    """A request's body: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid")


class Empty(Body):
    """Nothing is needed."""


class LampOut(Schema):
    name: str
    colour: str
    sentence: str


class Lamps(Schema):
    process: LampOut
    progress: LampOut
    telemetry: LampOut


class Reason(Schema):
    code: str
    sentence: str
    evidence: dict[str, Any]


class TroubleOut(Schema):
    code: str
    count: int
    sentence: str


class ThroughputOut(Schema):
    """Medians over the newest attempt without its first tenth; None: the run does not log it."""

    value: float | None
    unit: str = Field(description="`tok/s` or `samples/s`")
    mfu: float | None = Field(description="Model FLOPs utilisation: a share of what the devices can do at best")


class LeftOutOut(Schema):
    """A node that the run is kept away from for a while."""

    node: str
    why: str
    until: str
    is_excluded: bool = Field(description="False: it is taken where there is no other")


class RestartsOut(Schema):
    """How often the run was started again by itself."""

    max: int = Field(description="`restarts.max` of its spec")
    used: int = Field(description="restarts in a row that counted at the last failure")
    total: int = Field(description="all since a person started it")
    due_at: str | None = Field(description="when the next attempt may begin; None: none is waited for")
    left_out: list[LeftOutOut]
    source: str = Field(
        description="what the last restart went on from: `storage`, `the memory of` nodes; `memory`: not yet"
    )
    from_step: int | None = Field(description="the step of that state")
    steps_lost: int | None = Field(description="steps that the last restart trains again")


class TimeOut(Schema):
    """Where the time went, in seconds: the parts add up to `total_s`. What passed between an end and a restart by a
    person is not counted."""

    queued_s: float
    starting_s: float = Field(description="from the placing to the first step")
    productive_s: float = Field(description="steps that are trained once")
    recomputed_s: float = Field(description="steps that are trained again after a restart")
    checkpoint_s: float = Field(description="steps waited for a checkpoint to be saved")
    detection_s: float = Field(description="from a failure until it is known")
    restart_s: float = Field(description="from then to the first step of the next attempt")
    paused_s: float
    total_s: float
    goodput: float | None = Field(description="`productive_s / total_s`; None before any time has passed")


class RewindOut(Schema):
    """A decision to go back to `to_step`, and to leave out the batches of the steps `first` to `last`."""

    to_step: int
    first: int
    last: int
    at: str
    by: str = Field(description="empty: a rule of `watch`")
    rule: str = Field(description="the metric of that rule")


class RunOut(Schema):
    id: str
    name: str
    project: str
    cluster: str | None = Field(description="None: it was logged outside of Trainyard and sent here")
    job: str | None
    parent: str | None
    tags: list[str]
    notes: str
    status: str
    reason: Reason
    lamps: Lamps
    step: int | None
    steps: int | None
    progress: float | None
    attempt: int | None
    restarts: RestartsOut
    rewinds: list[RewindOut]
    created_by: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    archived_at: str | None
    troubles: list[TroubleOut] = Field(description="what went wrong with its records on their way, worst first")
    throughput: ThroughputOut
    time: TimeOut | None = Field(description="None: it was logged outside of Trainyard")
    summary: dict[str, dict[str, Any]]
    spec: dict[str, Any]
