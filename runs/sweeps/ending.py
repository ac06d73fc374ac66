"""Ending runs of trials gracefully, and trials with them. A trial leaves its state by compare-and-set: whoever repeats
a step after a restart changes nothing twice."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from runs.life import stopping
from runs.models import Run, Sweep, Trial
from runs.models.runs import PRUNED, StaleStatus
from runs.records.metrics.models import Telemetry
from runs.sweeps.objective import NoValue, reports_of, value_of
from runs.tasks import reconcile_soon, schedule_soon
from runs.values.status import PLACED, Status, TransitionError
from trainyard.contract.statuses import TrialState


def end_runs(trial: Trial, *, code: str, sentence: str, now: datetime) -> int:
    """Have the runs of the trial that have not ended save and end, and return how many do so for this. Raises
    StaleStatus where one has just changed."""
    num = 0
    for run in Run.objects.filter(pk__in=trial.run_ids()).select_related("cluster"):
        if run.is_final or run.status == Status.STOPPING:
            continue
        if run.status in PLACED and run.recover_at is None:
            stopping.begin(run, run.live_attempt(), why=code, code=code, sentence=sentence, now=now)
            reconcile_soon(run.pk)
        else:
            run.move_to(Status.CANCELLED, code=code, sentence=sentence)
            schedule_soon(run.cluster_id)
        num += 1
    return num


def prune(trial: Trial, *, at_step: int, value: float | None, sentence: str, now: datetime) -> bool:
    """Stop the trial early. False where it has ended, or its run just changed: the next step looks again."""
    try:
        with transaction.atomic():
            has_left = _leave(
                trial,
                TrialState.RUNNING,
                state=TrialState.PRUNED,
                pruned_at_step=at_step,
                value=value,
                reason=sentence,
                ended_at=now,
                system_attributes=trial.system_attributes,
            )
            if not has_left:
                return False
            if not end_runs(trial, code=PRUNED, sentence=sentence, now=now):
                raise StaleStatus(f"trial {trial.number} ends without its pruner")
    except (StaleStatus, TransitionError):
        trial.refresh_from_db()
        return False
    return True


def fail(trial: Trial, *, sentence: str, now: datetime) -> bool:
    return _leave(trial, TrialState(trial.state), state=TrialState.FAILED, reason=sentence, ended_at=now)


def finish_ended(sweep: Sweep, trials: Iterable[Trial], now: datetime) -> int:
    """End the trials whose runs have all ended, and return how many did. Those of a pruned one end after it: one that
    had made its last step before the stop came is complete."""
    running = [one for one in trials if one.state == TrialState.RUNNING]
    ending = [*running, *sweep.trials.filter(state=TrialState.PRUNED, run__ended_at__gt=F("ended_at"))]
    runs = Run.objects.in_bulk([run_id for one in ending for run_id in one.run_ids()])
    finished = 0
    for trial in ending:
        own = [runs[run_id] for run_id in trial.run_ids() if run_id in runs]
        if trial.state == TrialState.RUNNING and len(own) < sweep.parsed.seeds:
            finished += fail(trial, sentence="Its run was deleted.", now=now)
        elif all(one.is_final for one in own):
            finished += _finish(sweep, trial, own, now)
    if finished:
        update_best(sweep)
    return finished


def _finish(sweep: Sweep, trial: Trial, runs: list[Run], now: datetime) -> bool:
    ended_at = max((one.ended_at for one in runs if one.ended_at is not None), default=now)
    if trial.state == TrialState.PRUNED and any(one.status != Status.SUCCEEDED for one in runs):
        return _leave(trial, TrialState.PRUNED, ended_at=ended_at, steps=_last_step(sweep, trial, runs[0]))
    if unsuccessful := next((one for one in runs if one.status != Status.SUCCEEDED), None):
        word = "was stopped" if unsuccessful.status == Status.CANCELLED else "failed"
        return fail(trial, sentence=f"Run {unsuccessful.pk} {word}: {unsuccessful.reason_sentence}", now=ended_at)
    try:
        values = [value_of([one.pk for one in runs], objective) for objective in sweep.parsed.objectives]
    except NoValue as error:
        return fail(trial, sentence=str(error), now=ended_at)
    return _leave(
        trial,
        TrialState(trial.state),
        state=TrialState.COMPLETE,
        value=values[0],
        values=values if len(values) > 1 else [],
        steps=trial.steps if runs[0].steps is None else runs[0].steps,
        pruned_at_step=None,
        ended_at=ended_at,
        reason="",
    )


def _last_step(sweep: Sweep, trial: Trial, run: Run) -> int | None:
    """Return how far a pruned trial came until its stop: as far as the run's steps are known, else as far as its
    objective was reported."""
    if run.steps is not None:
        step = Telemetry.objects.filter(pk=run.pk).values_list("step", flat=True).first()
        return trial.steps if step is None else max(step, trial.steps or 0)
    later = reports_of(run.pk, sweep.parsed.objectives[0].metric, trial.steps)
    return later[-1].step if later else trial.steps


def _leave(trial: Trial, before: TrialState, /, **changes: Any) -> bool:
    """Change these columns of the trial in one statement, if it is still in the state."""
    if not Trial.objects.filter(pk=trial.pk, state=before).update(**changes):
        return False
    for name, value in changes.items():
        setattr(trial, name, value)
    return True


def update_best(sweep: Sweep) -> None:
    """Find the best trial that completed, of a sweep with one objective: here or, before the sweep, elsewhere."""
    if sweep.parsed.is_multiple:
        return
    order = F("value").asc() if sweep.parsed.objectives[0].sign > 0 else F("value").desc()
    best = sweep.trials.filter(state=TrialState.COMPLETE, value__isnull=False).order_by(order, "number").first()
    sweep.best = best
    Sweep.objects.filter(pk=sweep.pk).update(best=best)
