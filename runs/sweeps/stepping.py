"""One step of a sweep: read reports, prune, end what has ended, launch what may be launched.

Every part may be repeated, and a process may be killed between any two: what was decided stands in rows, and what was
not is decided again from them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

import structlog
from django.db.models import Max, Q

from runs import stopping
from runs.models import Sweep, Trial
from runs.models.runs import StaleStatus
from runs.status import TransitionError
from runs.sweeps.ending import end_runs, finish_ended
from runs.sweeps.history import History
from runs.sweeps.launching import CannotLaunch, launch_waiting, open_trial
from runs.sweeps.limits import End, end_of, outcome_of
from runs.sweeps.observing import Observer
from runs.sweeps.populations import step_population
from runs.sweeps.search.suggest import suggest
from runs.sweeps.search.trials import PastTrial, Question
from trainyard.contract.statuses import SWEEP_FINAL, SweepStatus, TrialState

log = structlog.get_logger(__name__)

LAUNCH_S = 2.0  # of one step: the rest is launched in the next
EXHAUSTED = "exhausted"  # in study_state: the sampler has no more points


class Stepper:
    """What a process knows between two steps: nothing that rows do not say too."""

    def __init__(self) -> None:
        self.history = History()
        self.observer = Observer()

    def step_all(self, now: datetime) -> int:
        """Step each sweep that is not over, and each with a trial that is live all the same. Return their number."""
        live = Trial.objects.live().order_by().values("sweep")
        active = Sweep.objects.filter(~Q(status__in=list(SWEEP_FINAL)) | Q(pk__in=live))
        sweeps = list(active.select_related("project", "cluster", "created_by"))
        for sweep in sweeps:
            try:
                self.step(sweep, now)
            except OSError:  # a broker or a database that is away: nothing goes on without it
                raise
            except Exception:  # a bug: the other sweeps go on all the same
                log.exception("sweep.step_failed", sweep=sweep.pk)
        self.history.forget(one.pk for one in sweeps)
        self.observer.forget(live_runs())
        return len(sweeps)

    def step(self, sweep: Sweep, now: datetime) -> None:
        """Do what is to be done for one sweep now."""
        trials = list(sweep.live_trials().select_related("run", "sweep").order_by("number"))
        has_changed = self.observer.observe(sweep, trials, lambda: self.history.of(sweep), now)
        has_changed |= bool(finish_ended(sweep, trials, now))
        if sweep.status == SweepStatus.RUNNING:
            has_changed |= self._go_on(sweep, now)
        elif sweep.status == SweepStatus.STOPPING:
            stop_live(sweep, now)
            _end_if_over(sweep)
        if has_changed:
            sweep.changed()

    def _go_on(self, sweep: Sweep, now: datetime) -> bool:
        end = end_of(sweep, now)
        if end is None:
            try:
                has_launched = self._launch(sweep, now)
            except CannotLaunch as error:
                end = End("cannot-launch", str(error))
            else:
                if not has_launched and _has_no_more(sweep):
                    _end_if_over(sweep)
                return has_launched
        sweep.move_to(SweepStatus.STOPPING, code=end.code, sentence=end.sentence)
        stop_live(sweep, now)
        _end_if_over(sweep)
        return True

    def _launch(self, sweep: Sweep, now: datetime) -> bool:
        """Launch trials until as many are live as may be, and as many more as wait for their place. Return whether one
        was."""
        limit = sweep.parsed.budget.parallel + sweep.parsed.ahead
        started, began = 0, time.monotonic()
        if sweep.parsed.sampler.name == "population":
            started += step_population(sweep, now)
        for trial in sweep.trials.filter(state=TrialState.WAITING).select_related("sweep").order_by("number"):
            if sweep.trials.filter(state=TrialState.RUNNING).count() >= limit:
                return bool(started)
            started += launch_waiting(sweep, trial, now)
        while time.monotonic() - began < LAUNCH_S:
            if sweep.live_trials().count() >= limit or _has_no_more(sweep):
                break
            if not self._launch_next(sweep, self.history.of(sweep), now):
                break
            started += 1
            if end_of(sweep, now) is not None:
                break
        return bool(started)

    def _launch_next(self, sweep: Sweep, past: Sequence[PastTrial], now: datetime) -> bool:
        last = sweep.trials.aggregate(last=Max("number"))["last"]
        number = 0 if last is None else last + 1
        state = {name: value for name, value in sweep.study_state.items() if name != EXHAUSTED}
        question = Question(sweep.parsed, number, _num_searched(sweep), past, state)
        suggestion = suggest(question)
        if suggestion is None:
            sweep.study_state = {**sweep.study_state, EXHAUSTED: True}
            Sweep.objects.filter(pk=sweep.pk).update(study_state=sweep.study_state)
            return False
        return open_trial(sweep, number, suggestion, now) is not None


def live_runs() -> list[str]:
    """Return the ids of the runs of all live trials."""
    found = Trial.objects.live().exclude(run=None).order_by()
    return [str(run_id) for run_id in found.values_list("run_id", flat=True)]


def stop_live(sweep: Sweep, now: datetime) -> None:
    """End the live trials of a sweep that is being stopped; those without a run at once."""
    sentence = f"Sweep {sweep.name} ends: {sweep.reason_sentence}"
    sweep.trials.filter(state=TrialState.WAITING).update(
        state=TrialState.FAILED, reason=sweep.reason_sentence, ended_at=now
    )
    for trial in sweep.trials.filter(state=TrialState.RUNNING):
        try:
            end_runs(trial, code=stopping.SWEEP_ENDED, sentence=sentence, now=now)
        except (StaleStatus, TransitionError):  # it has just changed: the next step looks again
            continue


def _num_searched(sweep: Sweep) -> int:
    """Return how many trials the sampler has proposed: those by hand, or from elsewhere, are not of the budget."""
    return sweep.trials.filter(by_hand=False).count()


def _has_no_more(sweep: Sweep) -> bool:
    return bool(sweep.study_state.get(EXHAUSTED)) or _num_searched(sweep) >= sweep.parsed.budget.trials


def _end_if_over(sweep: Sweep) -> bool:
    # The run of a pruned trial may have made its last step before its stop came: then the trial is complete.
    ending = sweep.trials.filter(state=TrialState.PRUNED, run__isnull=False, run__ended_at=None)
    if sweep.live_trials().exists() or ending.exists():
        return False
    status, code, sentence = outcome_of(sweep)
    return sweep.move_to(status, code=code, sentence=sentence)
