"""The newest state of a run in the memory of its nodes, in words."""

from __future__ import annotations

from runs.checkpoints.reports import OFF
from runs.metrics.facts import facts_of
from runs.metrics.models import CheckpointUse
from runs.models import Run
from trainyard.contract.facts import IN_MEMORY, InMemoryFacts
from trainyard.formats.words import listed

MOST_NAMED = 4


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
