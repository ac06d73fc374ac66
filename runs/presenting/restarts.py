"""The restarts of a run as people and programs see them."""

from __future__ import annotations

from datetime import UTC, datetime

from runs.models import Run
from runs.models.recoveries import Recovery
from runs.presenting.stamps import stamp
from runs.recovery.words import num_lost
from trainyard.contract.answers.runs import LeftOutNode, Restarts, Rewind
from trainyard.spec.sections.restarts import RestartRules


def rewind_documents(run: Run) -> list[Rewind]:
    return [
        {
            "to_step": one.to_step,
            "first": one.first,
            "last": one.last,
            "at": stamp(datetime.fromtimestamp(one.at, UTC)),
            "by": one.by,
            "rule": one.rule,
        }
        for one in run.known_rewinds.entries
    ]


def restarts_document(run: Run, now: datetime) -> Restarts:
    recovery = run.restarts
    rules = RestartRules.of(run.spec)
    return {
        "max": rules.max,
        "used": recovery.number if now.timestamp() - recovery.failed_at <= rules.window_s else 0,
        "total": recovery.total,
        "due_at": stamp(run.recover_at),
        "left_out": [] if run.is_final else _left_out(recovery, now),
        "source": recovery.source,
        "from_step": recovery.from_step if recovery.source else None,
        "steps_lost": num_lost(recovery) if recovery.source else None,
    }


def _left_out(recovery: Recovery, now: datetime) -> list[LeftOutNode]:
    return [
        {
            "node": one.name,
            "why": one.why,
            "until": stamp(datetime.fromtimestamp(one.until, UTC)),
            "is_excluded": one.is_excluded,
        }
        for one in recovery.left_out_at(now.timestamp())
    ]
