"""How far nodes are with sending an attempt's output, and when they have sent all there is of it."""

from __future__ import annotations

from django.db.models import Q

from runs import broadcast
from runs.models import Placement
from runs.reconcile.listening import Listener
from trainyard.contract.base import to_builtins
from trainyard.contract.node_status import ListedAttempt, OutputState

ATTEMPTS_PER_QUERY = 500


def take_outputs(listener: Listener) -> None:
    """Write it into the placements' rows. A node that has sent everything of an ended attempt sends no more of it."""
    listed = {
        (node, attempt): one
        for node, status in listener.statuses.items()
        for attempt, one in status.attempts.items()
        if one.is_done or _has_news(one)
    }
    pairs = list(listed)
    for start in range(0, len(pairs), ATTEMPTS_PER_QUERY):
        wanted = Q(pk__in=())
        for node, attempt in pairs[start : start + ATTEMPTS_PER_QUERY]:
            wanted |= Q(node=node, attempt=attempt)
        for placement in Placement.objects.filter(wanted, done_at=None).select_related("attempt"):
            _take(placement, listed[placement.node_id, placement.attempt_id], listener)


def _take(placement: Placement, listed: ListedAttempt, listener: Listener) -> None:
    output = {} if listed.output is None else to_builtins(listed.output)
    is_done = listed.is_done and placement.attempt.ended_at is not None
    if not is_done and output == placement.output:
        return
    placement.output = output
    placement.done_at = listener.now if is_done else None
    placement.save(update_fields=["output", "done_at"])
    broadcast.run_changed(placement.attempt.run_id)


def _has_news(listed: ListedAttempt) -> bool:
    output = listed.output or OutputState()
    return bool(output.problem or output.num_refused or output.num_pending or output.is_sent)
