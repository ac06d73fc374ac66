"""One step of a sweep: read reports, prune, end what has ended, launch what may be launched.

Every part may be repeated, and a process may be killed between any two: what was decided stands in rows, and what was
not is decided again from them.
"""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import structlog
from django.db.models import Q

from runs.life import stopping
from runs.models import Sweep, Trial
from runs.models.runs import StaleStatus, run_ended
from runs.records.metrics.bulk import in_parts
from runs.serving.clock import Clock
from runs.sweeps.ending import end_runs, finish_ended
from runs.sweeps.launching import CannotLaunch, launch_waiting, next_number, open_trial
from runs.sweeps.observing import Observer
from runs.sweeps.population_rows import step_population
from runs.sweeps.search.plain import PastTrial, SamplerQuestion
from runs.sweeps.search.suggest import suggest
from runs.values.status import TransitionError
from trainyard.contract.statuses import SWEEP_FINAL, SweepStatus, TrialState
from trainyard.spec.values.durations import seconds_of, words_of

log = structlog.get_logger(__name__)

Mark = tuple[int, str, datetime | None]  # number, state and end of a trial: of one that has ended they stay

LAUNCH_S = 2.0  # of one step: the rest is launched in the next
EXHAUSTED = "exhausted"  # in study_state: the sampler has no more points


class Stepper:
    """State of a process between two steps: nothing that rows do not say too."""

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
        if (end := end_of(sweep, now)) is None:
            try:
                has_launched = self._launch(sweep, now)
            except CannotLaunch as error:
                end = SweepEnd("cannot-launch", str(error))
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
        number = next_number(sweep)
        state = {name: value for name, value in sweep.study_state.items() if name != EXHAUSTED}
        suggestion = suggest(SamplerQuestion(sweep.parsed, number, _num_searched(sweep), past, state))
        if suggestion is None:
            sweep.study_state = {**sweep.study_state, EXHAUSTED: True}
            Sweep.objects.filter(pk=sweep.pk).update(study_state=sweep.study_state)
            return False
        return open_trial(sweep, number, suggestion, now) is not None


def live_runs() -> list[str]:
    found = Trial.objects.live().exclude(run=None).order_by()
    return [str(run_id) for run_id in found.values_list("run_id", flat=True)]


def stop_live(sweep: Sweep, now: datetime) -> None:
    """End the live trials of a sweep that is being stopped; those without a run at once."""
    sentence = f"Sweep {sweep.name} ends: {sweep.reason_sentence}"
    waiting = sweep.trials.filter(state=TrialState.WAITING)
    waiting.update(state=TrialState.FAILED, reason=sweep.reason_sentence, ended_at=now)
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


def _end_if_over(sweep: Sweep) -> None:
    # The run of a pruned trial may have made its last step before its stop came: then the trial is complete.
    ending = sweep.trials.filter(state=TrialState.PRUNED, run__isnull=False, run__ended_at=None)
    if not sweep.live_trials().exists() and not ending.exists():
        status, code, sentence = outcome_of(sweep)
        sweep.move_to(status, code=code, sentence=sentence)


# The trials of a sweep as samplers see them. What has ended is read once and kept by the process.


class History:
    """The trials of the sweeps that one process steps: nothing that rows do not say too."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Mark, PastTrial]] = {}

    def of(self, sweep: Sweep) -> list[PastTrial]:
        """Return all trials by number. One that is live may have passed another step of its pruner meanwhile."""
        kept = self._kept.get(sweep.pk, {})
        marks = list(sweep.trials.values_list("number", "state", "ended_at"))
        known = {mark: kept[mark] for mark in marks if mark in kept and mark[2] is not None}
        for some in in_parts([mark[0] for mark in marks if mark not in known]):
            for row in sweep.trials.filter(number__in=some):
                known[row.number, row.state, row.ended_at] = past_trial(row)
        self._kept[sweep.pk] = known
        return sorted(known.values(), key=lambda one: one.number)

    def forget(self, live: Iterable[str]) -> None:
        """Keep nothing of sweeps that are not stepped any more."""
        self._kept = {pk: self._kept[pk] for pk in live if pk in self._kept}


def past_trial(row: Trial) -> PastTrial:
    values = tuple(row.values) if row.values else (() if row.value is None else (row.value,))
    step = row.pruned_at_step if row.state == TrialState.PRUNED else row.steps
    return PastTrial(row.number, TrialState(row.state), row.parameters, values, step, row.system_attributes)


# Reasons for the end of a sweep: its budget, trials that all fail, a person. One sentence each.


class SweepEnd(NamedTuple):
    """End of a sweep: live trials are stopped, then it is over."""

    code: str
    sentence: str


# Status of a sweep once its last trial has ended.
OUTCOMES = {"stopped": SweepStatus.CANCELLED, "failures": SweepStatus.FAILED, "cannot-launch": SweepStatus.FAILED}


def end_of(sweep: Sweep, now: datetime) -> SweepEnd | None:
    """Return why the sweep ends now; None where it goes on."""
    budget = sweep.parsed.budget
    if _has_failed(sweep, budget.failures):
        return SweepEnd("failures", failure_sentence(sweep))
    if budget.time and sweep.active_s_at(now.timestamp()) >= seconds_of(budget.time):
        return SweepEnd("time", f"Its time of {words_of(seconds_of(budget.time))} is over.")
    if budget.gpu_hours is not None and (spent := slot_hours(sweep, now)) >= budget.gpu_hours:
        return SweepEnd("gpu-hours", f"Its trials have used {spent:.2f} of {budget.gpu_hours:g} GPU-hours.")
    return None


def _has_failed(sweep: Sweep, limit: int) -> bool:
    """Return whether the newest trials, as many as the limit, have all failed; those that are live are left out."""
    ended = sweep.trials.exclude(state__in=(TrialState.WAITING, TrialState.RUNNING)).order_by("-number")
    newest = list(ended.values_list("state", flat=True)[:limit])
    return len(newest) == limit and all(state == TrialState.FAILED for state in newest)


def failure_sentence(sweep: Sweep) -> str:
    limit = sweep.parsed.budget.failures
    last = sweep.trials.filter(state=TrialState.FAILED).order_by("-number").first()
    why = f" The last, trial {last.number}: {last.reason}" if last is not None else ""
    return f"{'One trial' if limit == 1 else f'{limit} trials in a row'} failed.{why}"


def outcome_of(sweep: Sweep) -> tuple[SweepStatus, str, str]:
    """Return status, code and sentence of a sweep that has no live trial and gets no further one."""
    if sweep.reason_code in OUTCOMES:
        return OUTCOMES[sweep.reason_code], sweep.reason_code, sweep.reason_sentence
    num_complete = sweep.trials.filter(state=TrialState.COMPLETE).count()
    before = f"{sweep.reason_sentence} " if sweep.status == SweepStatus.STOPPING else ""
    if not num_complete:
        return SweepStatus.FAILED, "no-trial-completed", f"{before}No trial completed."
    words = f"{before}{num_complete} of {sweep.trials.count()} trials completed."
    return SweepStatus.SUCCEEDED, sweep.reason_code if before else "finished", words


def slot_hours(sweep: Sweep, now: datetime) -> float:
    """Return the hours that runs of its trials have held, times their slots."""
    total = 0.0
    columns = ("run__started_at", "run__ended_at", "run__num_nodes", "run__slots_per_node", "run__slot_shares")
    for names in (columns, tuple("further_runs__run__" + one.removeprefix("run__") for one in columns)):
        rows = Trial.objects.filter(sweep=sweep).exclude(**{names[0]: None}).values_list(*names)
        for started_at, ended_at, nodes, slots, shares in rows:
            total += ((ended_at or now) - started_at).total_seconds() * (nodes or 1) * (slots or 1) / shares
    return total / 3600.0


# Stepping sweeps every second, in a thread of control's own: a slow proposal must not hold up recovery.

EVERY_S = 0.5
LOCK_S = 5  # where a round outlasts it, rows keep two processes from launching the same trial


def sweep_clock() -> Clock:
    clock = Clock("sweeps", Stepper().step_all, every_s=EVERY_S, lock_s=LOCK_S)
    run_ended.connect(clock.wake)  # the next trial takes the place at once
    return clock
