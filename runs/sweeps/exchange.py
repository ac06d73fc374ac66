"""Sweeps from and to other tools: a study's finished trials as the first trials of a sweep, and ours as a study."""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from django.db import transaction

from runs.models import Sweep, Trial, TrialReport, User
from runs.sweeps.actions import start_sweep
from trainyard.contract.base import BadDocument, JsonObject, convert, to_builtins
from trainyard.contract.statuses import TRIAL_FINAL, TrialState
from trainyard.grouping import grouped
from trainyard.interchange.study import (
    Distribution,
    Number,
    State,
    Study,
    StudyTrial,
    Value,
    distribution_problems,
    number_of,
)
from trainyard.interchange.warm_start import distribution_of
from trainyard.spec import Problem, SpecError

STUDY = "study"  # in a trial's system_attributes: what rows do not hold, so that an export has it again
WARM = "warm_start"
MOST_NAMED = 20


def import_study(*, actor: User, document: Any, study: Study) -> Sweep:
    """Start a sweep whose first trials are the study's. They count as made by hand: the budget is for those to come.

    Raises SpecError for what is wrong with the document or the study, and what start_sweep raises.
    """
    if problems := [*distribution_problems(study), *_direction_problems(document, study)]:
        raise SpecError([Problem(f"study.{one.path}", one.message) for one in problems[:MOST_NAMED]])
    return start_sweep(actor=actor, document=document, earlier=lambda sweep: make_trials(sweep, study))


def make_trials(sweep: Sweep, study: Study) -> None:
    """Write the trials, in the transaction of whoever calls."""
    with transaction.atomic():
        rows = Trial.objects.bulk_create(trials_of(sweep, study), batch_size=500)
        reports = (
            TrialReport(trial=row, step=step, value=float(value))
            for row, trial in zip(rows, study.trials, strict=True)
            for step, value in trial.reports
            if math.isfinite(float(value))
        )
        TrialReport.objects.bulk_create(reports, batch_size=2_000, ignore_conflicts=True)


def trials_of(sweep: Sweep, study: Study) -> Iterator[Trial]:
    space = sweep.parsed.space
    is_multiple = len(study.directions) > 1
    for number, trial in enumerate(study.trials):
        values = [float(one) for one in trial.values]
        is_finite = bool(values) and all(map(math.isfinite, values))
        last = trial.reports[-1] if trial.reports else None
        is_pruned = trial.state == "PRUNED"
        value = values[0] if is_finite else _finite(last) if is_pruned and last is not None else None
        # A value that is not finite is none that a search can learn from: as a run with such an objective.
        yield Trial(
            sweep=sweep,
            number=number,
            state=TrialState("FAILED" if trial.state == "COMPLETE" and not is_finite else trial.state),
            reason=f"Trial {trial.number} of the study {study.name}.",
            parameters={path: one for path, one in trial.parameters.items() if path in space},
            value=value,
            values=values if is_multiple and is_finite else [],
            by_hand=True,
            started_at=_moment(trial.started_at),
            ended_at=_moment(trial.ended_at if trial.ended_at is not None else trial.started_at or 0.0),
            steps=last[0] if last is not None else None,
            pruned_at_step=last[0] if is_pruned and last is not None else None,
            system_attributes={WARM: study.name, STUDY: kept_document(trial)},
        )


def kept_document(trial: StudyTrial) -> JsonObject:
    """Return the trial without the reports that rows hold."""
    document: JsonObject = to_builtins(trial)
    document["reports"] = [one for one in document["reports"] if isinstance(one[1], str)]
    return document


def _finite(report: tuple[int, Any]) -> float | None:
    value = float(report[1])
    return value if math.isfinite(value) else None


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _direction_problems(document: Any, study: Study) -> list[Problem]:
    given = document.get("objective") if isinstance(document, dict) else None
    objectives = given if isinstance(given, list) else [given]
    directions = [one.get("direction", "minimize") for one in objectives if isinstance(one, dict)]
    if directions and directions != list(study.directions):
        words = f"{', '.join(study.directions)} are not the directions of the sweep, {', '.join(map(str, directions))}"
        return [Problem("directions", words)]
    return []


# A sweep's finished trials as a study.


def study_of(sweep: Sweep) -> Study:
    """Return the trials that have ended, by number. One that came from a study is as it was there."""
    space = {path: distribution_of(entry) for path, entry in sweep.parsed.as_document()["space"].items()}
    rows = list(sweep.trials.filter(state__in=list(TRIAL_FINAL)).select_related("parent").order_by("number"))
    found = TrialReport.objects.filter(trial__sweep=sweep).order_by("trial", "step")
    stored = found.values_list("trial_id", "step", "value").iterator(chunk_size=10_000)
    reports = grouped((trial_id, (step, number_of(value))) for trial_id, step, value in stored)
    objectives = sweep.parsed.objectives
    return Study(
        name=sweep.name,
        directions=[one.direction for one in objectives],
        metrics=[one.metric for one in objectives],
        trials=[_trial(place, row, space, reports.get(row.pk, [])) for place, row in enumerate(rows)],
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
        state=cast("State", str(row.state)),  # one that has ended has the same word there
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
    log = one.log and value > 0
    return Distribution(kind=one.kind, low=min(one.low, value), high=max(one.high, value), step=one.step, log=log)
