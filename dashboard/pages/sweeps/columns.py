"""Data of the charts on a sweep's page, as one document of columns: figures of all trials, and as many points as a
chart can show."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from runs.sweeps.analysis import best as analysis
from runs.sweeps.analysis.slots import Occupation, saved_by_pruning, timeline
from runs.sweeps.analysis.thinning import thinned, thinned_bars
from trainyard.contract.base import JsonObject
from trainyard.spec.sweeps import SweepSpec

STEPS = "train.steps"
FEW_DIGITS = 7  # of a value in a chart


class FieldColumn(TypedDict):
    """A field that varies. ``values`` has a number, a text or null for each trial."""

    path: str
    label: str
    low: float
    high: float
    isLog: bool
    choices: list[str]
    values: list[float | str | None]


def columns(
    spec: SweepSpec, base: JsonObject, trials: Sequence[analysis.TrialPoint], occupations: Sequence[Occupation]
) -> JsonObject:
    """``total`` and ``complete`` count all trials; the columns have those that are drawn. A sweep with several
    objectives has a front and no best trial."""
    direction = spec.objectives[0].direction
    is_multiple, labels = spec.is_multiple, labels_of(list(spec.space))
    over_trials = None if is_multiple else analysis.best_over_trials(trials, direction)
    over_compute = None if is_multiple else analysis.best_over_compute(trials, direction)
    front = analysis.pareto_front(trials, [one.direction for one in spec.objectives]) if is_multiple else []
    best = [one.number for found in (over_trials, over_compute) if found for one in found.improvements]
    drawn = thinned(trials, list(spec.space), direction, {*front, *best})
    fields = [analysis.with_seen(one, trials) for one in analysis.fields_of(spec.space)]
    return {
        "total": len(trials),
        "complete": sum(one.state == analysis.COMPLETE for one in trials),
        "number": [one.number for one in drawn],
        "state": [str(one.state).lower() for one in drawn],
        "run": [one.run for one in drawn],
        "fields": [
            field_column(one, labels[one.path], [_value(one, trial.parameters) for trial in drawn]) for one in fields
        ],
        "objectives": _objectives(spec, drawn),
        "overTrials": _best(over_trials),
        "overCompute": _best(over_compute),
        "front": front,
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


def steps_of(base: JsonObject, trials: Sequence[analysis.TrialPoint]) -> dict[int, int]:
    """Return the steps that each trial would run, by its number; of a script, those of the longest complete trial."""
    written = (base.get("train") or {}).get("steps")
    longest = max((one.steps or 0 for one in trials if one.state == analysis.COMPLETE), default=0)
    found: dict[int, int] = {}
    for one in trials:
        steps = one.parameters.get(STEPS, written) or longest
        if analysis.is_number(steps) and steps > 0:
            found[one.number] = int(steps)
    return found


def field_column(field: analysis.SpaceField, label: str, values: list[float | str | None]) -> FieldColumn:
    return {
        "path": field.path,
        "label": label,
        "low": field.low,
        "high": field.high,
        "isLog": field.is_log,
        "choices": list(field.choices),
        "values": values,
    }


def _value(field: analysis.SpaceField, parameters: Mapping[str, Any]) -> float | str | None:
    value = parameters.get(field.path)
    if field.path not in parameters:
        return None
    return analysis.text_of(value) if field.is_choice else _short(float(value)) if analysis.is_number(value) else None


def _objectives(spec: SweepSpec, drawn: Sequence[analysis.TrialPoint]) -> list[JsonObject]:
    return [
        {
            "metric": one.metric,
            "direction": one.direction,
            "values": [_finite(trial.values[at]) if at < len(trial.values) else None for trial in drawn],
        }
        for at, one in enumerate(spec.objectives)
    ]


def _finite(value: float | None) -> float | None:
    """JSON has no NaN."""
    return _short(value) if value is not None and math.isfinite(value) else None


def _short(value: float) -> float:
    return float(f"{value:.{FEW_DIGITS}g}")


def _best(found: analysis.BestSoFar | None) -> JsonObject | None:
    """``steps`` are [where on the axis, number of the trial, value]."""
    return found and {"steps": [(one.at, one.number, one.value) for one in found.improvements], "end": found.end}


def _slots(
    trials: Sequence[analysis.TrialPoint], occupations: Sequence[Occupation], steps: Mapping[int, int]
) -> JsonObject:
    """``bars`` are [lane, start, end, place of the state in ``states``, number of the trial], in Unix seconds."""
    found, saved = thinned_bars(timeline(occupations)), saved_by_pruning(trials, steps)
    states = {one.number: str(one.state).lower() for one in trials}
    names = sorted(set(states.values()))
    return {
        "lanes": found.lanes,
        "states": names,
        "bars": [
            (one.lane, round(one.start, 2), round(one.end, 2), names.index(states[one.number]), one.number)
            for one in found.bars
            if one.number in states
        ],
        "saved": saved.saved_rank_seconds,
        "taken": saved.taken_rank_seconds,
        "share": saved.share,
        "pruned": saved.num_pruned,
        "unknown": saved.num_unknown,
    }
