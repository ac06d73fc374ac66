"""Sweeps and trials as REST and pages show them, as typed values read in few queries."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import msgspec
from django.db.models import Count, QuerySet, TextField
from django.db.models.functions import Cast

from runs.models import Sweep, Trial, TrialReport
from runs.presenting.stamps import stamp
from runs.records.metrics.bulk import in_parts
from runs.records.metrics.models import Telemetry
from runs.rights.access import Someone, visible_sweeps
from runs.sweeps.analysis.best import TrialPoint, pareto_front
from runs.sweeps.analysis.importance import HOW_FAR
from trainyard.contract.answers import sweeps as answers
from trainyard.contract.statuses import TrialState
from trainyard.grouping import grouped
from trainyard.spec.sweeps import SweepSpec


class SweepSummary(NamedTuple):
    """A line of the list of sweeps; ``counts`` has every state of trials. ``best`` has completed, and is there of one
    objective."""

    row: Sweep
    spec: SweepSpec
    counts: Mapping[str, int]
    best: Trial | None


def sweeps_of(user: Someone, *, project: str = "", status: Sequence[str] = (), words: str = "") -> QuerySet[Sweep]:
    """Return the sweeps that the person sees and that fit, without order."""
    wanted = {"project__name": project, "status__in": list(status), "name__icontains": words}
    return visible_sweeps(user).filter(**{name: value for name, value in wanted.items() if value})


def summaries_of(rows: Sequence[Sweep]) -> list[SweepSummary]:
    """Return a summary of each row, in two queries for all."""
    ids = [row.pk for row in rows]
    counts: dict[str, dict[str, int]] = {pk: dict.fromkeys(map(str, TrialState), 0) for pk in ids}
    grouped = Trial.objects.filter(sweep__in=ids).order_by().values_list("sweep_id", "state").annotate(Count("pk"))
    for sweep_id, state, number in grouped:
        counts[sweep_id][state] = number
    bests = [row.best_id for row in rows if row.best_id is not None]
    best = Trial.objects.exclude(value=None).in_bulk(bests)
    return [SweepSummary(row, row.parsed, counts[row.pk], best.get(row.best_id or 0)) for row in rows]


def summary_of(row: Sweep) -> SweepSummary:
    return summaries_of([row])[0]


OWN = ("number", "state", "value", "parameters", "steps", "pruned_at_step", "by_hand", "reason")
FURTHER = (
    "run_id", "values", "started_at", "ended_at", "parent__number", "run__started_at", "run__ended_at",
    "run__num_nodes", "run__slots_per_node", "run__slot_shares",
)  # fmt: skip
TEXTS = {
    "ended_text": "ended_at", "run_started_text": "run__started_at", "run_ended_text": "run__ended_at",
    "parameters_text": "parameters", "values_text": "values",
}  # fmt: skip
NAIVE = (19, 26)  # characters of a time without offset, in whole seconds or in microseconds


def sweep_trials(sweep: Sweep, now: datetime, *, numbers: Collection[int] | None = None) -> list[answers.Trial]:
    """Return all trials, or those with the numbers, by number: in one query (and one more where trials have several
    seeds)."""
    found = Trial.objects.filter(sweep=sweep)
    if numbers is not None:
        found = found.filter(number__in=numbers)
    rows = found.order_by("number").values(*OWN, *FURTHER)
    links = Trial.objects.filter(sweep=sweep, further_runs__run__isnull=False).order_by("number", "further_runs__seed")
    runs = links.values_list("number", "further_runs__run_id")
    further = grouped(runs) if sweep.parsed.seeds > 1 else {}
    return [_trial_row(row, now, further) for row in rows.iterator(chunk_size=5_000)]


def trial_points(sweep: Sweep, *, state: str = "") -> list[TrialPoint]:
    """Return all trials, or those in the state, by number."""
    found = Trial.objects.filter(sweep=sweep, **({"state": state} if state else {})).order_by("number")
    rows = found.values_list("number", "state", "value", "values", "parameters")
    return [
        TrialPoint(number, state, value, _values(values, value), parameters)
        for number, state, value, values, parameters in rows.iterator(chunk_size=5_000)
    ]


def front_of(sweep: Sweep) -> list[int]:
    """Return the numbers of the trials that no other beats, of a sweep with several objectives."""
    if not sweep.parsed.is_multiple:
        return []
    directions = [one.direction for one in sweep.parsed.objectives]
    return pareto_front(trial_points(sweep, state=TrialState.COMPLETE), directions)


def compared_points(sweep: Sweep) -> list[TrialPoint]:
    """Return the trials that reported a value, each with the newest it has and, among its parameters, how far it went:
    the share of the steps of the longest. Those that failed or still run count with what they reported."""
    rows = Trial.objects.filter(sweep=sweep).values_list("number", "pruned_at_step", "steps")
    steps = {number: steps if pruned_at is None else pruned_at for number, pruned_at, steps in rows}
    newest: dict[int, float] = {}
    reports = TrialReport.objects.filter(trial__sweep=sweep, trial__value=None).order_by("step")
    for number, step, value in reports.values_list("trial__number", "step", "value"):
        newest[number], steps[number] = value, step
    points = [p if p.value is not None else p._replace(value=newest.get(p.number)) for p in trial_points(sweep)]
    longest = max((step for step in steps.values() if step), default=0)
    shares = {number: round((step or longest) / longest, 3) if longest else 1.0 for number, step in steps.items()}
    return [
        one._replace(parameters={**one.parameters, HOW_FAR: shares[one.number]})
        for one in points
        if one.value is not None
    ]


def timed_points(sweep: Sweep, now: datetime) -> list[TrialPoint]:
    """Return all trials by number, with their times and runs. Times and JSON are read from the database's texts: Django
    takes longer for them than for all the rest of a long sweep."""
    texts = {name: Cast(path, TextField()) for name, path in TEXTS.items()}
    rows = Trial.objects.filter(sweep=sweep).order_by("number").annotate(**texts)
    names = ("number", "state", "value", "steps", "run_id", "run__num_nodes", "run__slots_per_node")
    found = [_timed_point(row, now) for row in rows.values_list(*names, *TEXTS).iterator(chunk_size=5_000)]
    pruned = [one.run for one in found if one.state == TrialState.PRUNED and one.run is not None]
    paces: dict[str, float | None] = {}
    for some in in_parts(pruned):
        paces |= dict(Telemetry.objects.filter(pk__in=some).values_list("pk", "median_step_s"))
    return [
        one._replace(step_cost=pace * one.num_ranks) if (pace := paces.get(one.run or "")) is not None else one
        for one in found
    ]


def _timed_point(row: Sequence[Any], now: datetime) -> TrialPoint:
    number, state, value, steps, run, num_nodes, slots, ended, run_started, run_ended, parameters, values = row
    spent_s = ((time_of(run_ended) or now) - start).total_seconds() if (start := time_of(run_started)) else 0.0
    return TrialPoint(
        number=number,
        state=state,
        value=value,
        values=_values(msgspec.json.decode(values) if values != "[]" else None, value),
        parameters=msgspec.json.decode(parameters),
        ended_at=time_of(ended),
        steps=steps,
        rank_seconds=max(0.0, spent_s) * (num_nodes or 1) * (slots or 1),
        run=run,
        num_ranks=(num_nodes or 1) * (slots or 1),
    )


def time_of(text: str | None) -> datetime | None:
    """Return the time of a database's text: PostgreSQL's has an offset, SQLite's is in UTC."""
    if text is None:
        return None
    if len(text) in NAIVE:
        return datetime.fromisoformat(f"{text}+00:00")
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _values(values: Sequence[float] | None, value: float | None) -> tuple[float, ...]:
    """Return the value of each objective; ``value`` is that of a trial with one objective."""
    return tuple(values or ()) or (() if value is None else (value,))


def _trial_row(row: Mapping[str, Any], now: datetime, further: Mapping[int, list[str]]) -> answers.Trial:
    """``rank_seconds`` is what its run took, in seconds times ranks; of a live one until now."""
    started, ranks = row["run__started_at"], (row["run__num_nodes"] or 1) * (row["run__slots_per_node"] or 1)
    spent_s = ((row["run__ended_at"] or now) - started).total_seconds() if started is not None else 0.0
    found = {
        **{name: row[name] for name in OWN},
        "run": row["run_id"],
        "values": list(_values(row["values"], row["value"])),
        "started_at": stamp(row["started_at"]),
        "ended_at": stamp(row["ended_at"]),
        "parent": row["parent__number"],
        "rank_seconds": max(0.0, spent_s) * ranks / (row["run__slot_shares"] or 1),
        "further_runs": further.get(row["number"], []),
    }
    return cast(answers.Trial, found)


def trial_of_run(run_id: str) -> Trial | None:
    """Return the trial whose run this is, with its sweep; None for a run of no sweep."""
    found = Trial.objects.select_related("sweep")
    return found.filter(run=run_id).first() or found.filter(further_runs__run=run_id).first()
