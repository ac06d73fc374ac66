"""One tick of control: hear, judge, place, tell. Each step may be repeated, or run in two processes at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, cast

import structlog
from redis.exceptions import LockError, RedisError

from runs import broadcast, engine, valkey_users
from runs.models import Attempt, Node, Run
from runs.models.clusters import MAX_SLOTS
from runs.reconcile import datasets
from runs.reconcile.acting import WRITE_EVERY_S, follow, free_slots, live_attempts
from runs.reconcile.elsewhere import lose_silent_runs
from runs.reconcile.hear import Ear, forget_the_rest
from runs.reconcile.late import correct_late
from runs.reconcile.placing import schedule
from runs.reconcile.restoring import tell
from runs.reconcile.sending import take_outputs
from runs.reconcile.tell import write_down
from runs.reconcile.tracing import tell_traces
from runs.serving.transport import redis
from runs.status import Status
from trainyard.contract import keys, limits

__all__ = ["reconcile_run", "schedule", "tick"]

log = structlog.get_logger(__name__)

LOCK_KEY = f"{keys.PREFIX}:control:lock"
LOCK_S = 5  # whoever is killed in the middle of a round keeps the others waiting for so long
TICK_KEY = f"{keys.PREFIX}:control:tick"  # Unix seconds of the last tick: /health shows its age
SINCE_KEY = f"{keys.PREFIX}:control:since"
AWAY_S = 5.0  # a longer pause between ticks means that control was away, and knows nothing of that time


def tick(now: datetime) -> bool:
    """Do one round. False when another process is at it: then this one has nothing to do."""
    lock = redis().lock(LOCK_KEY, timeout=LOCK_S)
    if not lock.acquire(blocking=False):
        return False
    try:
        _round(now)
    finally:
        with contextlib.suppress(LockError):  # the round took longer than the lock lasts
            lock.release()
    return True


def _round(now: datetime) -> None:
    nodes = list(Node.objects.filter(removed_at=None))
    since = _since(now)
    ear = Ear(now, since)
    ear.listen_to_nodes(nodes)
    take_nodes(nodes, ear)
    _guarded(partial(valkey_users.keep_up, nodes))
    attempts = live_attempts()
    for attempt in attempts:
        _guarded(partial(follow, attempt, ear), run=attempt.run_id)
    _guarded(partial(tell, attempts))
    _guarded(partial(tell_traces, attempts))
    _guarded(partial(free_slots, ear))
    _guarded(partial(correct_late, now))
    _guarded(partial(lose_silent_runs, now, since))
    _guarded(partial(take_outputs, ear))
    queued = Run.objects.filter(status=Status.QUEUED).order_by()
    for cluster_id in queued.values_list("cluster_id", flat=True).distinct():
        _guarded(partial(schedule, cluster_id, now), cluster=cluster_id)
    write_down(nodes, ear.ups, now)
    _guarded(partial(datasets.ask, nodes, ear))
    forget_the_rest(nodes)
    redis().set(TICK_KEY, now.timestamp())


def _guarded(part: Callable[[], object], **about: Any) -> object:
    """Do one part of the round; one that fails must not keep the others waiting. A broker that is away fails all."""
    try:
        return part()
    except (RedisError, OSError):
        raise
    except Exception:  # a bug, or a report that nobody expected: the log says which, and the next round tries again
        log.exception("tick.part_failed", **about)
        return None


def reconcile_run(run_id: str, now: datetime) -> None:
    """Look at one run at once: a supervisor reported something new, or a person asked for something."""
    attempt = Attempt.objects.filter(run=run_id, ended_at=None).select_related("run").first()
    if attempt is None:
        return
    nodes = [placement.node for placement in attempt.placements.select_related("node")]
    ear = Ear(now, _since(now))
    ear.listen_to_nodes(nodes)
    changed = follow(attempt, ear)
    tell([attempt])
    tell_traces([attempt])
    if not changed and attempt.run.status != Status.STOPPING:
        return
    write_down(nodes, ear.ups, now)
    for node in nodes:
        engine.command(node, keys.NUDGE, {})
    if attempt.ended_at is not None:
        free_slots(ear)
        if attempt.run.cluster_id is not None:
            schedule(attempt.run.cluster_id, now)


def take_nodes(nodes: Iterable[Node], ear: Ear) -> None:
    """Write what the node workers say into their rows, at once when it is new, else now and then."""
    changed = [_guarded(partial(_take_node, node, ear), node=node.name) for node in nodes]
    if any(changed):
        broadcast.nodes_changed()


def _take_node(node: Node, ear: Ear) -> bool:
    up = ear.ups.get(node.pk)
    was_in_contact = node.is_in_contact(ear.now)
    if up is None or ear.node_silent_s(node) > 0:
        return _contact_just_ended(node, ear)
    said: dict[str, Any] = {name: up[name] for name in ("address", "version", "inventory") if up.get(name) is not None}
    if (slots := _asked_slots(node, said.get("inventory"))) is not None:
        said["slots"] = slots
    is_new = not was_in_contact or any(getattr(node, name) != value for name, value in said.items())
    due = node.seen_at is None or (ear.now - node.seen_at).total_seconds() >= WRITE_EVERY_S
    if not is_new and not due:
        return False
    said |= {"health": up.get("health") or {}, "seen_at": ear.now}
    Node.objects.filter(pk=node.pk).update(**said)
    for name, value in said.items():
        setattr(node, name, value)
    return True


def _asked_slots(node: Node, inventory: dict[str, Any] | None) -> int | None:
    """Return the node's slots where it was started with another ``--slots`` than before. What it said before does not
    undo what an administrator chose since then."""
    asked: int | None = inventory.get("slots") if inventory else None
    if asked is None or asked == node.inventory.get("slots"):
        return None
    return max(min(asked, MAX_SLOTS), node.least_slots())


def _contact_just_ended(node: Node, ear: Ear) -> bool:
    """Whether this is about the first tick without contact: whoever watches learns it once."""
    if node.seen_at is None:
        return False
    over_s = (ear.now - node.seen_at).total_seconds() - limits.CONTACT_LOST_S
    return 0 < over_s <= WRITE_EVERY_S


def _since(now: datetime) -> float:
    """Return when control began to listen without a pause."""
    last, since = cast("list[bytes | None]", redis().mget([TICK_KEY, SINCE_KEY]))
    if last is None or since is None or now.timestamp() - float(last) > AWAY_S:
        redis().set(SINCE_KEY, now.timestamp())
        return now.timestamp()
    return float(since)
