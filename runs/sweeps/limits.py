"""Why a sweep ends: its budget, trials that all fail, a person. One sentence each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from runs.models import Sweep, Trial
from trainyard.contract.statuses import SweepStatus, TrialState
from trainyard.spec.values.durations import seconds_of, words_of


@dataclass(frozen=True)
class End:
    """Live trials are stopped, then the sweep is over."""

    code: str
    sentence: str


# What a sweep becomes once its last trial has ended.
OUTCOMES = {"stopped": SweepStatus.CANCELLED, "failures": SweepStatus.FAILED, "cannot-launch": SweepStatus.FAILED}


def end_of(sweep: Sweep, now: datetime) -> End | None:
    """Return why the sweep ends now; None where it goes on."""
    budget = sweep.parsed.budget
    if _has_failed(sweep, budget.failures):
        return End("failures", failure_sentence(sweep))
    if budget.time and sweep.active_s_at(now.timestamp()) >= seconds_of(budget.time):
        return End("time", f"Its time of {words_of(seconds_of(budget.time))} is over.")
    if budget.gpu_hours is not None and (spent := slot_hours(sweep, now)) >= budget.gpu_hours:
        return End("gpu-hours", f"Its trials have used {spent:.2f} of {budget.gpu_hours:g} GPU-hours.")
    return None


def _has_failed(sweep: Sweep, limit: int) -> bool:
    """Whether the newest trials, as many as the limit, have all failed; those that are live are left out."""
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
    total = sweep.trials.count()
    words = f"{before}{num_complete} of {total} trials completed."
    return SweepStatus.SUCCEEDED, sweep.reason_code if before else "finished", words


def slot_hours(sweep: Sweep, now: datetime) -> float:
    """Return the hours that runs of its trials have held, times their slots."""
    total = 0.0
    columns = ("run__started_at", "run__ended_at", "run__num_nodes", "run__slots_per_node", "run__slot_shares")
    further = ("further_runs__run__" + one.removeprefix("run__") for one in columns)
    for names in (columns, tuple(further)):
        rows = Trial.objects.filter(sweep=sweep).exclude(**{names[0]: None}).values_list(*names)
        for started_at, ended_at, nodes, slots, shares in rows:
            total += ((ended_at or now) - started_at).total_seconds() * (nodes or 1) * (slots or 1) / shares
    return total / 3600.0
