"""A study's finished trials as the first trials of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from runs.models import Sweep, Trial, TrialReport, User
from runs.sweeps.actions import start_sweep
from trainyard.contract.base import JsonObject, to_builtins
from trainyard.contract.statuses import TrialState
from trainyard.interchange.study import Study, StudyTrial, distribution_problems, float_of
from trainyard.spec import Problem, SpecError

STUDY = "study"  # in a trial's system_attributes: what rows do not hold, so that an export has it again
WARM = "warm_start"
MOST_NAMED = 20


def import_study(*, actor: User, document: Any, study: Study) -> Sweep:
    """Start a sweep whose first trials are the study's. They count as made by hand: the budget is for those to come.

    Raises SpecError for what is wrong with the document or the study, and what start_sweep raises.
    """
    problems = distribution_problems(study)
    problems += _direction_problems(document, study)
    if problems:
        raise SpecError([Problem(f"study.{one.path}", one.message) for one in problems[:MOST_NAMED]])
    return start_sweep(actor=actor, document=document, earlier=lambda sweep: make_trials(sweep, study))


def make_trials(sweep: Sweep, study: Study) -> None:
    """Write the trials, in the transaction of whoever calls."""
    with transaction.atomic():
        rows = Trial.objects.bulk_create(trials_of(sweep, study), batch_size=500)
        reports = (
            TrialReport(trial=row, step=step, value=float_of(value))
            for row, trial in zip(rows, study.trials, strict=True)
            for step, value in trial.reports
            if math.isfinite(float_of(value))
        )
        TrialReport.objects.bulk_create(reports, batch_size=2_000, ignore_conflicts=True)


def trials_of(sweep: Sweep, study: Study) -> Iterator[Trial]:
    space = sweep.parsed.space
    is_multiple = len(study.directions) > 1
    for number, trial in enumerate(study.trials):
        values = [float_of(one) for one in trial.values]
        is_finite = bool(values) and all(map(math.isfinite, values))
        last = trial.reports[-1] if trial.reports else None
        is_pruned = trial.state == "PRUNED"
        value = values[0] if is_finite else _finite(last) if is_pruned and last is not None else None
        # A value that is not finite is none that a search can learn from: as a run with such an objective.
        state = "FAILED" if trial.state == "COMPLETE" and not is_finite else trial.state
        yield Trial(
            sweep=sweep,
            number=number,
            state=TrialState(state),
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
    value = float_of(report[1])
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
