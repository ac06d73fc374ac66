"""Ranks of an earlier attempt that may still train, so that the next one must not start; and silence that proves it."""

from datetime import datetime
from typing import cast

from django.utils import timezone

from runs.models import Attempt, Placement, Run
from runs.serving.transport import redis
from runs.values.status import Phase
from trainyard.contract import seals
from trainyard.contract.causes import CauseClass
from trainyard.spec.sections.parallel import outlives_workers

TICK_KEY = f"{seals.PREFIX}:control:tick"  # Unix seconds of the last tick: /health shows its age
SINCE_KEY = f"{seals.PREFIX}:control:since"
AWAY_S = 5.0  # a longer pause between ticks means that control was away, and knows nothing of that time
LOSSES = (CauseClass.NODE_LOST, CauseClass.INTERRUPTED)
LOST_S = 30.0  # a node that has just been shut down may look as if it were there


def lost_nodes(run: Run, now: datetime) -> frozenset[str]:
    """Return the nodes (ids) that an elastic run goes on without: they have not confirmed the end of its last attempt,
    or it failed since they were lost."""
    attempt = run.attempts.exclude(ended_at=None).order_by("-number").first()
    if attempt is None:
        return frozenset()
    held = attempt.placements.filter(held_slots__isnull=False).distinct()
    lost = {one.node_id for one in held if one.phase not in (Phase.ENDED, Phase.REFUSED)}
    failure = attempt.failed
    if failure is not None and failure.cause in LOSSES and now.timestamp() - failure.at < LOST_S and failure.node:
        lost.add(failure.node)
    return frozenset(lost)


def unconfirmed_nodes(run: Run, now: datetime | None = None) -> list[str]:
    """Return the names of nodes that must confirm first that nothing of the run is left there; none: it may start.

    One node whose ranks are gone is proof enough for all, where none can step without the others. A node that is out
    of contact for longer than its lease counts as confirmed where its supervisor ends its ranks before that.
    """
    now = now or timezone.now()
    held = Attempt.objects.filter(run=run, placements__held_slots__isnull=False, go__isnull=False)
    for attempt in held.distinct().prefetch_related("placements__node"):
        parts = list(attempt.placements.all())
        unended = [part for part in parts if part.phase not in (Phase.ENDED, Phase.REFUSED)]
        if not unended or not (len(unended) == len(parts) or outlives_workers(run.spec)):
            continue
        open_names = [part.node.name for part in unended if not _is_over_lease(part, attempt, now)]
        if len(open_names) == len(parts) or (open_names and outlives_workers(run.spec)):
            return open_names
    return []


def _is_over_lease(part: Placement, attempt: Attempt, now: datetime) -> bool:
    if part.reported_at is None or not part.reported.is_leased:
        return False
    return min((now - part.reported_at).total_seconds(), listened_s(now)) > attempt.lease_s


# Moment since which control has listened without a pause. Silence of a node from before it proves nothing.


def listening_since(now: datetime) -> float:
    """Return when control began to listen without a pause, in Unix seconds. Control calls it in each tick."""
    since = _known_since(now)
    if since is None:
        since = now.timestamp()
        redis().set(SINCE_KEY, since)
    return since


def listened_s(now: datetime) -> float:
    """Return for how many seconds control has listened without a pause; 0 while it is away."""
    since = _known_since(now)
    return 0.0 if since is None else max(0.0, now.timestamp() - since)


def _known_since(now: datetime) -> float | None:
    last, since = cast("list[bytes | None]", redis().mget([TICK_KEY, SINCE_KEY]))
    is_away = last is None or now.timestamp() - float(last) > AWAY_S
    return None if since is None or is_away else float(since)
