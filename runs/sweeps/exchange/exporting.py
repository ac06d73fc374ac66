"""A sweep's finished trials as a study."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from runs.models import Sweep, Trial, TrialReport
from runs.sweeps.exchange.importing import STUDY
from trainyard.contract.base import BadDocument, JsonObject, convert
from trainyard.contract.statuses import TRIAL_FINAL, TrialState
from trainyard.interchange.study import Distribution, Number, State, Study, StudyTrial, Value, number_of
from trainyard.interchange.warm_start import distribution_of

STATES: Mapping[str, State] = {
    TrialState.COMPLETE: "COMPLETE",
    TrialState.PRUNED: "PRUNED",
    TrialState.FAILED: "FAILED",
}


def study_of(sweep: Sweep) -> Study:
    """Return the trials that have ended, by number. One that came from a study is as it was there."""
    space = {path: distribution_of(entry) for path, entry in sweep.parsed.as_document()["space"].items()}
    rows = list(sweep.trials.filter(state__in=list(TRIAL_FINAL)).select_related("parent").order_by("number"))
    reports: dict[int, list[tuple[int, Number]]] = defaultdict(list)
    found = TrialReport.objects.filter(trial__sweep=sweep).order_by("trial", "step")
    for trial_id, step, value in found.values_list("trial_id", "step", "value").iterator(chunk_size=10_000):
        reports[trial_id].append((step, number_of(value)))
    objectives = sweep.parsed.objectives
    return Study(
        name=sweep.name,
        directions=[one.direction for one in objectives],
        metrics=[one.metric for one in objectives],
        trials=[_trial(place, row, space, reports[row.pk]) for place, row in enumerate(rows)],
    )


def _trial(place: int, row: Trial, space: Mapping[str, Distribution], reports: list[tuple[int, Number]]) -> StudyTrial:
    if (kept := row.system_attributes.get(STUDY)) is not None:
        try:
            trial = convert(kept, StudyTrial)
        except BadDocument:  # somebody has edited the row: what its columns hold counts
            pass
        else:
            trial.reports = sorted([*trial.reports, *reports], key=lambda one: one[0])
            trial.number = place
            return trial
    parameters = {path: _plain(value) for path, value in row.parameters.items()}
    started, ended = row.started_at or row.ended_at, row.ended_at
    values = [] if row.state == TrialState.FAILED else list(row.values) or ([] if row.value is None else [row.value])
    return StudyTrial(
        number=place,
        state=STATES[row.state],
        parameters=parameters,
        distributions={path: with_value(space.get(path), value) for path, value in parameters.items()},
        values=[number_of(one) for one in values],
        reports=reports,
        started_at=started.timestamp() if started is not None else None,
        ended_at=ended.timestamp() if ended is not None else None,
        attributes=_attributes(row),
    )


def _attributes(row: Trial) -> JsonObject:
    found: JsonObject = {"trainyard:run": row.run_id} if row.run_id is not None else {}
    if row.parent is not None:
        found |= {"trainyard:parent": row.parent.number, "trainyard:parent_step": row.parent_step}
    return found


def _plain(value: Any) -> Value:
    """Return the value as Optuna can have it: a list or a map is JSON."""
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value, sort_keys=True)


def with_value(one: Distribution | None, value: Value) -> Distribution:
    """Return the distribution, wide enough for a value that somebody chose by hand outside of it."""
    if one is None:
        return Distribution(kind="choice", values=[value])
    if one.kind == "choice":
        values = [_plain(choice) for choice in one.values]
        is_there = any(type(choice) is type(value) and choice == value for choice in values)
        return Distribution(kind="choice", values=values if is_there else [*values, value])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Distribution(kind="choice", values=[value])
    assert one.low is not None and one.high is not None, "a range of a sweep has ends"
    return Distribution(
        kind=one.kind, low=min(one.low, value), high=max(one.high, value), step=one.step, log=one.log and value > 0
    )
