"""What follows from a hang: the finding stands with the attempt, in the run's history, and, where it acts, in what is
wanted of every node."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from runs.life.hangs.compare import find_hang, living_ranks
from runs.models import Attempt, Placement
from runs.values.status import Status
from trainyard.contract.base import to_builtins
from trainyard.contract.causes import HangFinding
from trainyard.spec.sections.hangs import HangRules
from trainyard.spec.survival import outlives_workers

JUDGED = (Status.RUNNING, Status.RECOVERING)


def record_hang(
    attempt: Attempt, placements: Sequence[Placement], now: datetime, *, silent: Sequence[str] = ()
) -> bool:
    """Write what keeps the ranks now. Returns whether nodes are to be asked for something new. ``silent``: the names
    of nodes that are out of contact.

    A finding that acts stays: the ranks are ended for it.
    """
    before = attempt.known_hang
    if attempt.go is None or attempt.settling_at is not None or (before is not None and before.acts):
        return False
    if attempt.run.status not in JUDGED:
        return False
    ranks = living_ranks([(one.node.name, one.reported) for one in placements])
    rules = HangRules.of(attempt.run.spec)
    finding = find_hang(ranks, rules, outlives_workers=outlives_workers(attempt.run.spec), silent=silent)
    if finding is None:
        if before is not None:
            _write(attempt, None)
            attempt.run.record("hang-over", "The ranks make progress again.", attempt=attempt)
        return False
    finding.at = now.timestamp() if before is None else before.at
    if before == finding:
        return False
    _write(attempt, finding)
    if before is None or (before.kind, before.rank) != (finding.kind, finding.rank):
        attempt.run.record("hang-found", finding.sentence, data={"evidence": finding.evidence()}, attempt=attempt)
    return finding.acts


def _write(attempt: Attempt, finding: HangFinding | None) -> None:
    attempt.hang = None if finding is None else to_builtins(finding)
    attempt.save(update_fields=["hang"])
