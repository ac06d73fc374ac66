"""What the REST API answers about sweeps, as ``answers`` has it of runs."""

from __future__ import annotations

from typing import TypedDict

from trainyard.contract.base import JsonObject
from trainyard.rest.answers import Reason


class BestTrial(TypedDict):
    number: int
    run: str | None
    value: float
    parameters: JsonObject


class Trial(TypedDict):
    number: int
    run: str | None
    state: str
    value: float | None
    parameters: JsonObject
    steps: int | None


class SweepItem(TypedDict):
    id: str
    name: str
    project: str
    status: str
    reason: Reason
    metric: str
    trials_total: int
    counts: dict[str, int]
    best: BestTrial | None
    created_at: str


class Sweep(SweepItem):
    trials: list[Trial]


class RefusedTrial(TypedDict):
    parameters: JsonObject
    problem: str


class SweepPreview(TypedDict):
    """Times are in seconds; None where the planner cannot say."""

    trials: int
    runs: int
    num_tried: int
    num_refused: int
    refused: list[RefusedTrial]
    trial_s: float | None
    total_s: float | None
    slot_hours: float | None
    slots_per_trial: int


class Launched(TypedDict):
    """The ids of runs."""

    runs: list[str]
