"""What nodes say of an attempt's output on its way, and when they have sent all there is of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from runs import broadcast
from runs.models import Placement
from runs.reconcile.hear import Ear
from workers import contract

ATTEMPTS_PER_QUERY = 500


def take_outputs(ear: Ear) -> None:
    """Write it into the placements' rows. A node that has sent everything of an ended attempt sends no more of it."""
    said = {
        (node, attempt): about
        for node, up in ear.ups.items()
        for attempt, about in up.get("attempts", {}).items()
        if about.get("is_done") or _has_news(about)
    }
    pairs = list(said)
    for start in range(0, len(pairs), ATTEMPTS_PER_QUERY):
        wanted = Q(pk__in=())
        for node, attempt in pairs[start : start + ATTEMPTS_PER_QUERY]:
            wanted |= Q(node=node, attempt=attempt)
        for placement in Placement.objects.filter(wanted, done_at=None).select_related("attempt"):
            _take(placement, said[placement.node_id, placement.attempt_id], ear)


def _take(placement: Placement, about: Mapping[str, Any], ear: Ear) -> None:
    output = about.get("output") or {}
    is_done = bool(about.get("is_done")) and placement.attempt.ended_at is not None
    if not is_done and output == placement.output:
        return
    placement.output = output
    placement.done_at = ear.now if is_done else None
    placement.save(update_fields=["output", "done_at"])
    broadcast.run_changed(placement.attempt.run_id)


def _has_news(about: contract.Document) -> bool:
    output = about.get("output") or {}
    return any(output.get(name) for name in ("problem", "num_refused", "num_pending", "is_sent"))
