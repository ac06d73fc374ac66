"""What the REST API answers about sweeps."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from trainyard.contract.answers.runs import Reason
from trainyard.contract.base import JsonObject


class BestTrial(TypedDict):
    number: int
    run: str | None
    value: float
    parameters: JsonObject


class SweepItem(TypedDict):
    id: str
    name: str
    project: str
    status: str
    reason: Reason
    metric: str
    direction: str
    sampler: str
    pruner: str
    trials_total: Annotated[int, Meta(description="that the budget has")]
    counts: Annotated[dict[str, int], Meta(description="trials by state")]
    best: Annotated[BestTrial | None, Meta(description="None: no trial has completed, or there are several objectives")]
    created_by: str | None
    created_at: str
    ended_at: str | None


class Trial(TypedDict):
    number: int
    run: str | None
    state: Annotated[str, Meta(description="WAITING, RUNNING, COMPLETE, PRUNED or FAILED")]
    value: Annotated[float | None, Meta(description="of a pruned trial, the last that it reported")]
    values: Annotated[list[float], Meta(description="one for each objective")]
    parameters: JsonObject
    reason: str
    started_at: str | None
    ended_at: str | None
    steps: int | None
    pruned_at_step: int | None
    parent: int | None
    by_hand: bool
    rank_seconds: float
    further_runs: Annotated[list[str], Meta(description="the runs with other seeds")]


class Sweep(SweepItem):
    spec: JsonObject
    trials: list[Trial]


class RefusedTrial(TypedDict):
    parameters: JsonObject
    problem: str


class SweepPreview(TypedDict):
    """Times are in seconds."""

    trials: int
    runs: int
    num_tried: Annotated[int, Meta(description="points of the space that were parsed as the runs that they would be")]
    num_refused: int
    refused: Annotated[list[RefusedTrial], Meta(description="some of those that cannot run, and why")]
    trial_s: Annotated[float | None, Meta(description="of one run, by the planner; null where it cannot say")]
    total_s: float | None
    slot_hours: float | None
    slots_per_trial: int


class Launched(TypedDict):
    """The ids of runs."""

    runs: list[str]
