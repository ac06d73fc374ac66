"""What the charts of a sweep's page draw, as one document of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from runs.sweep_analysis.best import BestSoFar, best_over_compute, best_over_trials
from runs.sweep_analysis.pareto import pareto_front
from runs.sweep_analysis.slots import Occupation, saved_by_pruning, timeline
from runs.sweep_analysis.trials import COMPLETE, SpaceField, TrialLike, fields_of, is_number, text_of, with_seen
from runs.sweeps.reading import TrialRow
from trainyard.contract.base import JsonObject
from trainyard.spec.sweeps import SweepSpec

STEPS = "train.steps"


class FieldColumn(TypedDict):
    """A field that varies. ``values`` has a number, a text or null for each trial."""

    path: str
    label: str
    low: float
    high: float
    isLog: bool
    choices: list[str]
    values: list[float | str | None]


class ObjectiveColumn(TypedDict):
    metric: str
    direction: str
    values: list[float | None]


class BestDocument(TypedDict):
    """``steps`` are [where on the axis, number of the trial, value]."""

    steps: list[tuple[float, int, float]]
    end: float


class SlotsDocument(TypedDict):
    """``bars`` are [number of the trial, lane, start, end] in Unix seconds."""

    lanes: list[str]
    bars: list[tuple[int, int, float, float]]
    saved: float
    taken: float
    share: float | None
    pruned: int
    unknown: int


class ColumnsDocument(TypedDict):
    number: list[int]
    state: list[str]
    run: list[str | None]
    fields: list[FieldColumn]
    objectives: list[ObjectiveColumn]
    overTrials: BestDocument | None
    overCompute: BestDocument | None
    front: list[int]
    slots: SlotsDocument


def columns(
    spec: SweepSpec, base: JsonObject, trials: Sequence[TrialRow], occupations: Sequence[Occupation]
) -> ColumnsDocument:
    """A sweep with several objectives has a front and no best trial."""
    direction = spec.objectives[0].direction
    is_multiple, labels = spec.is_multiple, labels_of(list(spec.space))
    return {
        "number": [one.number for one in trials],
        "state": [str(one.state).lower() for one in trials],
        "run": [one.run for one in trials],
        "fields": [_field(one, labels[one.path], trials) for one in fields_of(spec.space)],
        "objectives": _objectives(spec, trials),
        "overTrials": None if is_multiple else _best(best_over_trials(trials, direction)),
        "overCompute": None if is_multiple else _best(best_over_compute(trials, direction)),
        "front": pareto_front(trials, [one.direction for one in spec.objectives]) if is_multiple else [],
        "slots": _slots(trials, occupations, steps_of(base, trials)),
    }


def labels_of(paths: Sequence[str]) -> dict[str, str]:
    """The last part of each path, with as many before it as tell it from the others."""
    found: dict[str, str] = {}
    for path in paths:
        parts = path.split(".")
        for num in range(1, len(parts) + 1):
            found[path] = ".".join(parts[-num:])
            if sum(other == found[path] or other.endswith(f".{found[path]}") for other in paths) == 1:
                break
    return found


def steps_of(base: JsonObject, trials: Sequence[TrialLike]) -> dict[int, int]:
    """How many steps each trial would run, by its number; of a script, as many as the longest complete trial ran."""
    written = (base.get("train") or {}).get("steps")
    longest = max((one.steps or 0 for one in trials if one.state == COMPLETE), default=0)
    found: dict[int, int] = {}
    for one in trials:
        steps = one.parameters.get(STEPS, written) or longest
        if is_number(steps) and steps > 0:
            found[one.number] = int(steps)
    return found


def _field(field: SpaceField, label: str, trials: Sequence[TrialRow]) -> FieldColumn:
    field = with_seen(field, trials)
    return {
        "path": field.path,
        "label": label,
        "low": field.low,
        "high": field.high,
        "isLog": field.is_log,
        "choices": list(field.choices),
        "values": [_value(field, one.parameters) for one in trials],
    }


def _value(field: SpaceField, parameters: Mapping[str, Any]) -> float | str | None:
    value = parameters.get(field.path)
    if field.path not in parameters:
        return None
    return text_of(value) if field.is_choice else float(value) if is_number(value) else None


def _objectives(spec: SweepSpec, trials: Sequence[TrialRow]) -> list[ObjectiveColumn]:
    if not spec.is_multiple:
        one = spec.objectives[0]
        values = [_finite(trial.value) for trial in trials]
        return [{"metric": one.metric, "direction": one.direction, "values": values}]
    return [
        {
            "metric": one.metric,
            "direction": one.direction,
            "values": [_finite(trial.values[at]) if at < len(trial.values) else None for trial in trials],
        }
        for at, one in enumerate(spec.objectives)
    ]


def _finite(value: float | None) -> float | None:
    """JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def _best(found: BestSoFar) -> BestDocument:
    return {"steps": [(one.at, one.number, one.value) for one in found.improvements], "end": found.end}


def _slots(trials: Sequence[TrialRow], occupations: Sequence[Occupation], steps: Mapping[int, int]) -> SlotsDocument:
    found, saved = timeline(occupations), saved_by_pruning(trials, steps)
    return {
        "lanes": found.lanes,
        "bars": [(one.number, one.lane, round(one.start, 2), round(one.end, 2)) for one in found.bars],
        "saved": saved.saved_rank_seconds,
        "taken": saved.taken_rank_seconds,
        "share": saved.share,
        "pruned": saved.num_pruned,
        "unknown": saved.num_unknown,
    }
