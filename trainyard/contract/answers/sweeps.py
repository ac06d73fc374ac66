"""Answers of the REST API about sweeps."""

from typing import Annotated, NotRequired, TypedDict

from trainyard.contract.answers.runs import Reason
from trainyard.contract.base import JsonObject, said


class BestTrial(TypedDict):
    number: int
    run: str | None
    value: float
    parameters: JsonObject


class Objective(TypedDict):
    metric: str
    direction: str


class SweepItem(TypedDict):
    id: str
    name: str
    project: str
    status: str
    reason: Reason
    metric: Annotated[str, said("of the first objective, as `direction`")]
    direction: str
    objectives: NotRequired[list[Objective]]
    sampler: str
    pruner: str
    trials_total: Annotated[int, said("that the budget has")]
    counts: Annotated[dict[str, int], said("trials by state")]
    best: Annotated[BestTrial | None, said("None: no trial has completed, or there are several objectives")]
    created_by: str | None
    created_at: str
    ended_at: str | None


class Trial(TypedDict):
    number: int
    run: str | None
    state: Annotated[str, said("WAITING, RUNNING, COMPLETE, PRUNED or FAILED")]
    value: Annotated[float | None, said("of a pruned trial, what it had at `pruned_at_step`")]
    values: Annotated[list[float], said("one for each objective")]
    parameters: JsonObject
    reason: str
    started_at: str | None
    ended_at: str | None
    steps: Annotated[int | None, said("the last one that it made, also after it was pruned")]
    pruned_at_step: int | None
    parent: int | None
    by_hand: bool
    rank_seconds: float
    further_runs: Annotated[list[str], said("the runs with other seeds")]


class Prediction(TypedDict):
    speed_up: float
    low: float
    high: float
    by: Annotated[str, said("planner, amdahl (fitted to smaller sizes), or ring (the same, weak)")]


class ScalingSize(TypedDict):
    ranks: int
    nodes: int
    run: str | None
    state: Annotated[str, said("of its trial; empty: the next size, which the study does not run")]
    reason: str
    planned_s: Annotated[float | None, said("a step, by the planner before the run")]
    step_s: Annotated[float | None, said("without warm-up and evaluation; null until its run has ended")]
    steps_per_second: float | None
    spread: Annotated[float, said("half the width of the middle half of its steps, as a share")]
    parts: Annotated[dict[str, float], said("seconds of a step")]
    speed_up: Annotated[float | None, said("over the smallest size that was measured")]
    efficiency: float | None
    losses: Annotated[dict[str, float], said("shares of a step; with the efficiency they add up to 1")]
    predicted: Annotated[Prediction | None, said("from the smaller sizes alone")]


class Scaling(TypedDict):
    weak: bool
    verdict: str
    sizes: list[ScalingSize]


class Sweep(SweepItem):
    spec: JsonObject
    trials: list[Trial]
    front: NotRequired[Annotated[list[int], said("trials that no other beats; of several objectives")]]
    scaling: NotRequired[Annotated[Scaling | None, said("of a scaling study: its sizes in rising order")]]


class RefusedTrial(TypedDict):
    parameters: JsonObject
    problem: str


class SweepPreview(TypedDict):
    """Times are in seconds."""

    trials: int
    runs: int
    num_tried: Annotated[int, said("points of the space that were parsed as the runs that they would be")]
    num_refused: int
    refused: Annotated[list[RefusedTrial], said("some of those that cannot run, and why")]
    trial_s: Annotated[float | None, said("of one run, by the planner; null where it cannot say")]
    total_s: float | None
    slot_hours: float | None
    slots_per_trial: int


class Launched(TypedDict):
    """The ids of runs."""

    runs: list[str]


class FieldImportance(TypedDict):
    path: str
    fanova: Annotated[float, said("share of the variance that the field explains alone")]
    fanova_error: float
    permutation: NotRequired[Annotated[float, said("share of the variance that is missed with its values shuffled")]]
    permutation_error: NotRequired[float]


class Importance(TypedDict):
    """Errors are standard deviations of the estimates."""

    fields: Annotated[list[FieldImportance], said("the most important one first; empty where `sentence` says why")]
    interactions: NotRequired[Annotated[float, said("share of the variance that no field explains alone")]]
    num_complete: NotRequired[int]
    num_reported: NotRequired[Annotated[int, said("trials with a value, complete or not")]]
    num_used: NotRequired[Annotated[int, said("of them, looked at")]]
    sentence: str
    is_current: NotRequired[Annotated[bool, said("false: newer figures are being computed")]]
