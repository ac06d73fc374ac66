"""The objective of a trial, from the stored series of its run. Series that differ in labels are one, as in the table of
runs: the one without labels counts, else the mean over them."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from runs.records.metrics.progress import telemetry
from runs.records.points.pace import SYSTEM
from runs.records.points.read import curves, series_names, steady_medians, summaries
from runs.sweeps.pruning import Report
from trainyard.grouping import grouped
from trainyard.spec.sweeps import Objective

PACE, STEP_TIME = "steps_per_second", "train/step_time_s"  # of any run, as Trainyard sees it; what recipes log
MOST_POINTS = 400  # of what is read at a time: of more points, the last of each of so many stretches

MOST_NAMED = 8


class NoValue(ValueError):
    """The run has no value of the objective; the sentence says why."""


def reports_of(run_id: str, metric: str, after: int | None) -> list[Report]:
    """Return what the run reported behind the step ``after``, by step. A step that a restart trained again is there
    once, as its newest attempt reported it."""
    _, found = curves({run_id: (None if after is None else after + 1, None)}, [metric], points=MOST_POINTS)
    plain = [one for one in found if not one.labels]
    columns = [(one.columns["step"], one.columns["value" if one.kind == "raw" else "last"]) for one in plain or found]
    values = grouped((int(step), float(value)) for both in columns for step, value in zip(*both, strict=True))
    return [Report(step, sum(ones) / len(ones)) for step, ones in sorted(values.items())]


def value_of(run_ids: Sequence[str], objective: Objective) -> float:
    """Return the objective over the runs of a trial, their mean. Raises NoValue."""
    values = [_value_of(run_id, objective) for run_id in run_ids]
    return sum(values) / len(values)


def _value_of(run_id: str, objective: Objective) -> float:
    metric = objective.metric
    if metric == PACE:
        return _pace(run_id)
    summary = summaries([run_id], name=metric)[run_id].get(metric)
    if summary is None or not summary["count"]:
        raise NoValue(f"{metric} was never reported. {_logged(series_names([run_id]))}")
    if objective.of == "area":
        return _area(run_id, metric)
    if objective.of == "best":
        value = summary["min"] if objective.direction == "minimize" else summary["max"]
    else:
        last = summary["last"]
        value = float(last.replace("Infinity", "inf")) if isinstance(last, str) else last
    if value is None or not math.isfinite(value):
        word = "NaN" if value is None or math.isnan(value) else str(value)
        raise NoValue(f"{metric} was {word}, which is no number to compare.")
    return value


def _pace(run_id: str) -> float:
    """Return the steps in a second: the median, so that neither the first ones nor a validation count."""
    step_s = steady_medians([run_id], [STEP_TIME]).get(run_id, {}).get(STEP_TIME)
    step_s = telemetry([run_id])[run_id].median_step_s if step_s is None else step_s
    if not step_s or not 0 < 1 / step_s < math.inf:
        raise NoValue(f"Its steps are not known. {_logged(series_names([run_id]))}")
    return 1 / step_s


def _logged(names: Iterable[str]) -> str:
    """Say what a run did log, so that a wrong name is found: but for what Trainyard measures itself."""
    found = sorted(name for name in names if not name.startswith(SYSTEM))
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"It logged {', '.join(found[:MOST_NAMED])}{more}." if found else "It logged nothing."


def _area(run_id: str, metric: str) -> float:
    """Return the mean height of the curve over its steps, by trapezoids."""
    reports = [one for one in reports_of(run_id, metric, None) if math.isfinite(one.value)]
    if not reports:
        raise NoValue(f"{metric} was NaN at every step.")
    if len(reports) == 1:
        return reports[0].value
    area = sum((one.step - before.step) * (one.value + before.value) / 2 for before, one in pairwise(reports))
    return area / (reports[-1].step - reports[0].step)
