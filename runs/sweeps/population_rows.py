"""Population based training on rows: members are trials, and what is decided of them becomes rows and runs.

``runs.sweeps.populations`` decides. A bad trial and its successor change in one transaction: a process killed before it
has changed nothing, and one killed after it has nothing left to do.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.db import transaction

from runs.actions.runs import submit_run
from runs.models import Run, Sweep, Trial, TrialReport, User
from runs.records.metrics.models import Checkpoint
from runs.rights.access import Permission, require
from runs.sweeps.ending import prune
from runs.sweeps.launching import next_number, open_trial
from runs.sweeps.populations.deciding import Population, verdicts
from runs.sweeps.populations.lineage import Branch, Member, MemberVerdict, boundary_scores, line_of, replay, tree
from runs.sweeps.search.plain import Suggestion
from runs.values.refused import Refused
from trainyard.contract.statuses import TrialState
from trainyard.grouping import grouped
from trainyard.spec.sections.train import Train

JUDGED = "judged"  # in system_attributes: the last boundary at which the trial was judged
REPLACED = "replaced"  # …and that another one has taken the place of one that failed


def step_population(sweep: Sweep, now: datetime) -> int:
    """Act on what is decided of the members by now; return how many successors there are. Raises CannotLaunch."""
    spec = sweep.parsed
    rows = list(sweep.trials.filter(by_hand=False).select_related("run", "sweep").order_by("number"))
    members = members_of(sweep, rows)
    room = spec.budget.trials - len(rows)
    by_number = {row.number: row for row in rows}
    scores = {one.number: one.scores for one in members}
    launched = 0
    for verdict in verdicts(Population(spec.sampler, spec.space, members, spec.seed, last_step_of(sweep)), room):
        launched += _act(sweep, by_number, verdict, scores[verdict.number].get(verdict.step), now)
    return launched


def members_of(sweep: Sweep, rows: Sequence[Trial]) -> list[Member]:
    """Return the trials as members, in three queries for all."""
    stored = TrialReport.objects.filter(trial__in=[row.pk for row in rows]).order_by("step")
    reported = stored.values_list("trial_id", "step", "value")
    reports = grouped((trial_id, (step, value)) for trial_id, step, value in reported)
    runs = [row.run_id for row in rows if row.run_id is not None]
    saved = grouped(Checkpoint.objects.sound().filter(run_id__in=runs).values_list("run_id", "step"))
    begun = [row for row in rows if row.state != "WAITING"]
    return [_member(sweep, row, reports.get(row.pk, []), set(saved.get(row.run_id or "", []))) for row in begun]


def _member(sweep: Sweep, row: Trial, reports: Sequence[tuple[int, float]], checkpoints: set[int]) -> Member:
    spec = sweep.parsed
    start = row.parent_step or 0
    return Member(
        number=row.number,
        parameters=row.parameters,
        scores=boundary_scores(
            reports, interval=spec.sampler.interval, start=start, sign=spec.objectives[0].sign, reached=row.steps or 0
        ),
        checkpoints=frozenset(checkpoints),
        start=start,
        judged=int(row.system_attributes.get(JUDGED, 0)),
        is_training=row.state == TrialState.RUNNING,
        has_failed=row.state == TrialState.FAILED and REPLACED not in row.system_attributes,
    )


def last_step_of(sweep: Sweep) -> int:
    return int((sweep.base_spec.get("train") or {}).get("steps", Train().steps))


def _act(sweep: Sweep, rows: Mapping[int, Trial], verdict: MemberVerdict, score: float | None, now: datetime) -> bool:
    """Write the verdict; return whether there is a successor."""
    row, successor = rows[verdict.number], verdict.successor
    if successor is None:
        kept = {**row.system_attributes, JUDGED: verdict.step}
        Trial.objects.filter(pk=row.pk, state=TrialState.RUNNING).update(system_attributes=kept)
        return False
    suggestion, step = Suggestion(dict(successor.parameters)), successor.parent_step
    parent = rows[successor.parent] if successor.parent is not None else None
    restore = f"{parent.run_id}@{step}" if parent is not None else ""
    with transaction.atomic():
        number = next_number(sweep)
        if not _leave_place(sweep, row, verdict, number, score, now):
            return False
        made = open_trial(sweep, number, suggestion, now, parent=parent, parent_step=step, restore=restore)
        if made is None:  # the sweep was stopped meanwhile
            transaction.set_rollback(True)
    return made is not None


def _leave_place(
    sweep: Sweep, row: Trial, verdict: MemberVerdict, number: int, score: float | None, now: datetime
) -> bool:
    """End the trial for trial ``number``. False where it has just changed: the next step looks again."""
    if row.state != TrialState.RUNNING:
        row.system_attributes = {**row.system_attributes, REPLACED: number}
        return bool(Trial.objects.filter(pk=row.pk).update(system_attributes=row.system_attributes))
    row.system_attributes = {**row.system_attributes, JUDGED: verdict.step}
    objective, successor = sweep.parsed.objectives[0], verdict.successor
    assert successor is not None, "only one with a successor leaves its place"
    value = -objective.sign * score if score is not None and math.isfinite(score) else None
    shown = f"{objective.metric} {value:.4g}" if value is not None else f"{objective.metric}, which was no number,"
    words = f"Trial {number} takes its place, from trial {successor.parent} at step {successor.parent_step:,}."
    sentence = f"Stopped at step {verdict.step:,}: {shown} is among the worst there. {words}"
    return prune(row, at_step=verdict.step, value=value, sentence=sentence, now=now)


def lineage(sweep: Sweep) -> list[Branch]:
    """Return the tree of the population, by number; what led to the best trial is marked."""
    rows = sweep.trials.select_related("parent").order_by("number")
    return tree([_branch(row) for row in rows], sweep.best.number if sweep.best is not None else None)


def _branch(row: Trial) -> Branch:
    return Branch(
        number=row.number,
        parent=row.parent.number if row.parent is not None else None,
        start=row.parent_step or 0,
        end=row.pruned_at_step if row.pruned_at_step is not None else row.steps,
        state=row.state,
        value=row.value,
        parameters=row.parameters,
        run=row.run_id,
    )


def replay_trial(*, actor: User, sweep: Sweep, number: int) -> Run:
    """Launch what led to the trial as one run, which has the same losses, bit for bit. Raises Refused."""
    require(actor, sweep.project, Permission.SWEEPS_LAUNCH)
    branches = lineage(sweep)
    if all(one.number != number for one in branches):
        raise Refused("no-trial", f"Sweep {sweep.name} has no trial {number}.")
    try:
        document = replay(sweep.base_spec, line_of(branches, number), f"{sweep.name[:100]}-replay-{number}")
    except ValueError as error:
        raise Refused("no-replay", f"Trial {number} cannot be replayed: {error}.") from None
    return submit_run(actor=actor, document=document)
