"""Checkpoints as people and programs see them: their REST documents. Used by the API and by pages alike."""

from collections import defaultdict
from collections.abc import Sequence

from runs.models import Attempt, Run
from runs.presenting.stamps import document_of, stamp
from runs.records.checkpoints.read import INVALID, OFF, RESTORED
from runs.records.metrics.models import Checkpoint, CheckpointUse
from runs.records.metrics.progress import facts_of
from runs.rights.access import Someone, visible_runs
from runs.values.run_config import Origin, origin_of
from trainyard.contract.answers import people as answers
from trainyard.contract.facts import IN_MEMORY, InMemoryFacts
from trainyard.formats.words import listed

MOST_NAMED = 4  # nodes in a sentence


Restored = dict[tuple[int, int], list[answers.Restored]]  # by step and fence


def documents(user: Someone, run: Run, rows: Sequence[Checkpoint]) -> list[answers.Checkpoint]:
    """Return these checkpoints of the run in their REST shape, as far as ``user`` may know who went on from them."""
    attempts = dict(run.attempts.values_list("fence", "number"))
    steps = [row.step for row in rows]
    restored, missed = restored_by(user, run, steps), _missed(run, steps)
    made = []
    for row in rows:
        key = (row.step, row.fence)
        use = missed.get(key)
        is_gone = use is not None and use.at >= row.at and state_of(row) == "valid"
        made.append(_document(row, attempts, restored.get(key, []), use if is_gone else None))
    return made


def _missed(run: Run, steps: Sequence[int]) -> dict[tuple[int | None, int | None], CheckpointUse]:
    """Return by step and fence what a later attempt of the run said that did not find it. Only that much is known: on
    another node it may still be, so that a restart goes on looking for it."""
    said = CheckpointUse.objects.filter(run_id=run.pk, source_run=run.pk, memory="", step__in=steps)
    newest = {(use.step, use.fence): use for use in said.filter(state__in=(INVALID, RESTORED)).order_by("pk")}
    return {key: use for key, use in newest.items() if use.state == INVALID}


def restored_by(user: Someone, run: Run, steps: Sequence[int]) -> Restored:
    """Return which attempts said that they went on from these steps of the run.

    Another run is believed where its spec goes on from there, and named to those who can see it.
    """
    said = CheckpointUse.objects.filter(source_run=run.pk, state=RESTORED, memory="", step__in=steps)
    uses = list(said.order_by("pk"))
    others = visible_runs(user).filter(pk__in={use.run_id for use in uses} - {run.pk})
    origins = {one.pk: origin_of(one.spec) for one in others}
    numbers = Attempt.objects.filter(run__in=[run.pk, *origins])
    number_of = {(run_id, fence): number for run_id, fence, number in numbers.values_list("run", "fence", "number")}
    found: Restored = defaultdict(list)
    for use in uses:
        assert use.step is not None and use.fence is not None
        if use.run_id == run.pk or origins.get(use.run_id) == Origin(run.pk, use.step):
            number = number_of.get((use.run_id, use.attempt))
            found[use.step, use.fence].append({"run": use.run_id, "attempt": number, "at": stamp(use.at)})
    return found


def state_of(row: Checkpoint) -> str:
    if row.deleted_at is not None:
        return "deleted"
    return "invalid" if row.invalid_why else "late" if row.is_late else "valid"


def _document(
    row: Checkpoint, attempts: dict[int, int], restored: list[answers.Restored], missed: CheckpointUse | None
) -> answers.Checkpoint:
    state, why = state_of(row), row.invalid_why
    if missed is not None:
        number = attempts.get(missed.attempt)
        state, why = "missing", f"Attempt {number or '?'} did not find it: {missed.why or 'the ranks do not say more'}"
    found: answers.Checkpoint = document_of(
        row,
        answers.Checkpoint.__annotations__,
        attempt=attempts.get(row.fence),
        state=state,
        valid=state == "valid",
        why=why,
        at=stamp(row.at),
        rank=row.rank if row.rank >= 0 else None,
        deleted_at=stamp(row.deleted_at),
        restored_by=restored,
    )
    return found


def memory_sentence(run: Run) -> str:
    """Return what a restart would find in memory; empty of a run that keeps nothing there."""
    if run.is_final or not (run.spec.get("checkpoint") or {}).get("replicate_every_steps"):
        return ""
    problem = CheckpointUse.objects.filter(run_id=run.pk, attempt=run.fence, state=OFF).exclude(memory="").last()
    found = facts_of(run.pk, IN_MEMORY, InMemoryFacts, attempt=run.fence)
    if not found:
        return f"No state is in memory: {problem.why.rstrip('.')}." if problem is not None else ""
    newest = found[min(found)]
    where = f" on {listed(newest.nodes, at_most=MOST_NAMED)}" if newest.nodes else ""
    where += ", each part on two nodes" if newest.num_copies > 1 else ""
    every = f", one every {newest.every_steps:,} steps" if newest.every_steps else ""
    size = f"{newest.bytes / 1e6:,.1f} MB"
    return f"In memory{where}: step {newest.step:,} ({size}){every}. A restart takes it before one from storage."
