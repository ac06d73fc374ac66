"""Giving a trial its run. The trial and its run are written in one transaction: a process killed before it has written
nothing, and one killed after it has nothing left to do."""

from datetime import datetime

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Max

from runs.actions.runs import PreparedRun, prepare_run, queue_run
from runs.models import Sweep, Trial, TrialRun, User
from runs.rights.access import Forbidden, NotFound
from runs.sweeps.search.plain import Suggestion
from trainyard.contract.base import JsonObject
from trainyard.contract.statuses import SweepStatus, TrialState
from trainyard.spec import SpecError
from trainyard.spec.sweeps import trial_document

log = structlog.get_logger(__name__)


class CannotLaunch(RuntimeError):
    """No trial of the sweep can be launched; the sentence says why."""


def next_number(sweep: Sweep) -> int:
    last = sweep.trials.aggregate(last=Max("number"))["last"]
    return 0 if last is None else int(last) + 1


def documents_of(sweep: Sweep, number: int, parameters: JsonObject, restore: str = "") -> list[JsonObject]:
    """Return the specs of the trial's runs, one for each seed. ``restore`` is the checkpoint to go on from."""
    spec = sweep.parsed
    found = [trial_document(spec, sweep.base_spec, number, parameters, seed) for seed in range(spec.seeds)]
    if restore:
        found = [{**one, "checkpoint": {**(one.get("checkpoint") or {}), "restore": restore}} for one in found]
    return found


def open_trial(
    sweep: Sweep,
    number: int,
    suggestion: Suggestion,
    now: datetime,
    *,
    parent: Trial | None = None,
    parent_step: int | None = None,
    restore: str = "",
) -> Trial | None:
    """Write the trial with its run and return it; None where another process has written that number, or the sweep
    does not run any more. A trial whose spec is refused is written as FAILED, without a run."""
    actor = actor_of(sweep)
    refusal, prepared = "", []
    try:
        prepared = _prepared(actor, documents_of(sweep, number, suggestion.parameters, restore))
    except SpecError as error:
        refusal = f"It cannot run: {error.errors[0]}."
    values = {
        "sweep": sweep, "number": number, "parameters": suggestion.parameters,
        "system_attributes": suggestion.attributes, "started_at": now, "parent": parent, "parent_step": parent_step,
    }  # fmt: skip
    try:
        with transaction.atomic():
            if not Sweep.objects.select_for_update().filter(pk=sweep.pk, status=SweepStatus.RUNNING).exists():
                return None
            if suggestion.study_state is not None:
                sweep.study_state = suggestion.study_state
                Sweep.objects.filter(pk=sweep.pk).update(study_state=suggestion.study_state)
            if refusal:
                return Trial.objects.create(**values, state=TrialState.FAILED, reason=refusal, ended_at=now)
            trial = Trial.objects.create(**values, state=TrialState.RUNNING)
            _give_runs(trial, prepared, actor)
            return trial
    except IntegrityError:  # the number is taken
        log.info("sweep.number_taken", sweep=sweep.pk, number=number)
        return None


def launch_waiting(sweep: Sweep, trial: Trial, now: datetime) -> bool:
    """Give a trial that waits, one made by hand, its run."""
    actor = actor_of(sweep)
    try:
        prepared = _prepared(actor, documents_of(sweep, trial.number, trial.parameters))
    except SpecError as error:
        changes = {"state": TrialState.FAILED, "reason": f"It cannot run: {error.errors[0]}.", "ended_at": now}
        return bool(Trial.objects.filter(pk=trial.pk, state=TrialState.WAITING).update(**changes))
    with transaction.atomic():
        waiting = Trial.objects.filter(pk=trial.pk, state=TrialState.WAITING)
        if not waiting.update(state=TrialState.RUNNING, started_at=now):
            return False
        _give_runs(trial, prepared, actor)
    return True


def actor_of(sweep: Sweep) -> User:
    """Return who started the sweep: its runs are theirs, and go where they may. Raises CannotLaunch."""
    if sweep.created_by is None or not sweep.created_by.is_active:
        raise CannotLaunch("Whoever started the sweep has no account any more, so its trials have no owner.")
    return sweep.created_by


def _prepared(actor: User, documents: list[JsonObject]) -> list[PreparedRun]:
    try:
        return [prepare_run(actor=actor, document=one) for one in documents]
    except (NotFound, Forbidden) as error:
        raise CannotLaunch(f"{actor} may not launch its trials any more: {error}") from None


def _give_runs(trial: Trial, prepared: list[PreparedRun], actor: User) -> None:
    """Queue a run for each seed, in the transaction of whoever calls."""
    sentence = f"Trial {trial.number} of sweep {trial.sweep.name}."
    first, *further = (queue_run(one, actor=actor, sentence=sentence) for one in prepared)
    Trial.objects.filter(pk=trial.pk).update(run=first)
    trial.run = first
    for seed, run in enumerate(further, 1):
        TrialRun.objects.create(trial=trial, seed=seed, run=run)
