"""One tick of control: read, judge, place, write. Each step may be repeated, or run in two processes at once."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import structlog
from django.db import transaction
from django.db.models import Q
from redis.exceptions import RedisError, ResponseError

from runs.engines import engine_of
from runs.engines.control_hints import request_reconcile
from runs.life.preflight.rounds import column_of, follow_preflights, probes_for, troubles_of, with_asked
from runs.life.reconcile import datasets
from runs.life.reconcile.acting import WRITE_EVERY_S, follow, free_slots, is_complete, live_attempts
from runs.life.reconcile.desired import write_desired
from runs.life.reconcile.judge import INCOMPLETE
from runs.life.reconcile.listening import Listener, forget_the_rest, record_traces
from runs.life.reconcile.placing import claimant, is_claimed, predict_starts, schedule
from runs.life.reconcile.restoring import record_checkpoint_uses
from runs.life.resizing import preempt, preemptable_clusters, resize_runs
from runs.models import Attempt, Node, Placement, Run
from runs.models.clusters import slots_of
from runs.models.runs import StaleStatus
from runs.records.metrics import bulk
from runs.recovery.failing import record_matches
from runs.recovery.fencing import TICK_KEY, listening_since
from runs.recovery.policy import record_returns
from runs.rights import valkey_users
from runs.serving import broadcast
from runs.serving.clock import only_one
from runs.serving.transport import redis
from runs.values.status import OVER, Status, Wanted
from trainyard.contract import limits, seals
from trainyard.contract.base import to_builtins
from trainyard.contract.limits import MAX_SLOTS
from trainyard.contract.machines import Health, Inventory
from trainyard.contract.node_status import ListedAttempt, OutputState

ATTEMPTS_PER_QUERY = 500
FOR = timedelta(days=30)  # for so long nodes keep what they have not sent
AT_A_TIME = 100
EVERY_S = 5.0

_looked_at: datetime | None = None

log = structlog.get_logger(__name__)

Done = TypeVar("Done")

LOCK_KEY = f"{seals.PREFIX}:control:lock"
LOCK_S = 5  # whoever is killed in the middle of a round keeps the others waiting for so long
LOOK_AGAIN_S = 0.1


def tick(now: datetime) -> bool:
    """Do one round. False when another process is at it: then this one has nothing to do."""
    with only_one(LOCK_KEY, LOCK_S) as lock:
        if lock is not None:
            _round(now)
    return lock is not None


def _round(now: datetime) -> None:
    began = time.monotonic()
    nodes = list(with_asked(Node.objects.present()))
    since = listening_since(now)
    listener = Listener(now, since)
    listener.read_statuses(nodes)
    take_nodes(nodes, listener)
    _guarded(partial(valkey_users.keep_up, nodes))
    attempts = live_attempts()
    changed = [one for one in attempts if _guarded(partial(follow, one, listener), run=one.run_id)]
    for record in (record_checkpoint_uses, record_traces, record_returns, record_matches):
        _guarded(partial(record, attempts))
    _guarded(partial(free_slots, listener))
    _guarded(partial(correct_late, now))
    _guarded(partial(lose_silent_runs, now, since))
    _guarded(partial(take_outputs, listener))
    again = (Status.RECOVERING, Status.RESIZING)
    queued = Run.objects.filter(Q(status=Status.QUEUED) | Q(status__in=again, recover_at__lte=now)).order_by()
    for cluster_id in queued.values_list("cluster_id", flat=True).distinct():
        _guarded(partial(schedule, cluster_id, now), cluster=cluster_id)
        _guarded(partial(predict_starts, cluster_id, now), cluster=cluster_id)
    changed += resize(now, attempts)
    _guarded(partial(follow_preflights, nodes, now))
    write_desired(nodes, listener.statuses, now, _guarded(partial(probes_for, nodes, listener.statuses, now)) or {})
    for attempt in changed:
        _guarded(partial(_notify, attempt), run=attempt.run_id)
    _guarded(partial(datasets.inspect, nodes, listener))
    forget_the_rest(nodes)
    # The time of the round's end, not of its beginning: a long round is work, and no silence.
    redis().set(TICK_KEY, now.timestamp() + time.monotonic() - began)


def resize(now: datetime, live: Iterable[Attempt]) -> list[Attempt]:
    """Begin to resize what is to be resized, and have runs make room for others. Return the attempts whose ranks are to
    end; ``live`` are all that there are."""
    changed: list[Attempt] = []
    clusters = {one.run.cluster.pk: one.run.cluster for one in live if one.run.cluster is not None}
    for cluster in preemptable_clusters(clusters.values()):
        found = _guarded(partial(preempt, cluster, now, partial(claimant, cluster, now)), cluster=cluster.pk)
        changed += found or []
    elastic = {one.run.cluster_id for one in live if one.run.node_counts}
    for cluster in (clusters[pk] for pk in clusters if pk in elastic):
        found = _guarded(partial(resize_runs, cluster, now, partial(is_claimed, cluster, now)), cluster=cluster.pk)
        changed += found or []
    return changed


def _guarded(part: Callable[[], Done], **about: Any) -> Done | None:
    """Do one part of the round; one that fails must not keep the others waiting. A broker that is away fails all; one
    that refuses a command, as for a key of another type, fails this part."""
    try:
        return part()
    except ResponseError:
        log.exception("tick.part_refused", **about)
        return None
    except (RedisError, OSError):
        raise
    except Exception:  # a bug, or a report that nobody expected: the log says which, and the next round tries again
        log.exception("tick.part_failed", **about)
        return None


def reconcile_run(run_id: str, now: datetime) -> None:
    """Look at one run at once: a supervisor reported something new, or a person asked for something."""
    attempt = Attempt.objects.filter(run=run_id, ended_at=None).select_related("run__cluster").first()
    if attempt is None:
        return
    nodes = [placement.node for placement in attempt.placements.select_related("node")]
    listener = Listener(now, listening_since(now))
    listener.read_statuses(nodes)
    take_nodes(nodes, listener)  # one that is being stopped does not get the next attempt
    changed = follow(attempt, listener)
    record_checkpoint_uses([attempt])
    record_traces([attempt])
    record_returns([attempt])
    has_left = attempt.ended_at is not None or attempt.settling_at is not None
    is_free = changed and has_left and _is_over(attempt)
    if is_free:  # before the documents are written: the next run waits for these slots
        _place_next(attempt, now)
    if attempt.settling_at is not None and attempt.ended_at is None and _is_over(attempt):
        look_again_soon(run_id)  # only records that are on their way keep it from its end
    if not changed and attempt.run.status != Status.STOPPING:
        return
    write_desired(nodes, listener.statuses, now)
    _notify(attempt)
    has_freed = attempt.ended_at is not None and free_slots(listener)
    if has_freed or (has_left and not is_free):
        _place_next(attempt, now)


def _place_next(attempt: Attempt, now: datetime) -> None:
    if attempt.run.cluster_id is not None:
        schedule(attempt.run.cluster_id, now)


def _is_over(attempt: Attempt) -> bool:
    """Return whether nothing of the attempt runs on its nodes any more: its slots are free."""
    return all(placement.phase in OVER for placement in attempt.placements.all())


def look_again_soon(run_id: str) -> None:
    """Look at the run again in a moment. A tick would be a second, and nobody reports that records have arrived."""
    timer = threading.Timer(LOOK_AGAIN_S, request_reconcile, [run_id])
    timer.daemon = True
    timer.start()


def _notify(attempt: Attempt) -> None:
    """Have the attempt's nodes read what is wanted of them now."""
    if attempt.run.cluster is None:
        return
    engine = engine_of(attempt.run.cluster)
    if attempt.ended_at is not None or attempt.settling_at is not None or attempt.run.wanted != Wanted.RUN:
        engine.stop(attempt)
    else:
        for placement in attempt.placements.all():
            engine.nudge(placement.node)


def take_nodes(nodes: Iterable[Node], listener: Listener) -> None:
    """Write the nodes' statuses into their rows, at once where one has news, else now and then."""
    healthy: list[Node] = []
    changed = [_guarded(partial(_take_node, node, listener, healthy), node=node.name) for node in nodes]
    if healthy:
        _guarded(partial(_write_health, healthy))
    if any(changed):
        broadcast.nodes_changed()


def _write_health(nodes: Iterable[Node]) -> None:
    in_order = sorted(nodes, key=lambda one: one.pk)  # all writers lock them in this order
    rows = [
        (json.dumps(one.health), json.dumps(one.self_check), bulk.time_value(one.seen_at), one.pk) for one in in_order
    ]
    with transaction.atomic():
        bulk.update(Node, ("health", "self_check", "seen_at"), rows)


def _take_node(node: Node, listener: Listener, healthy: list[Node]) -> bool:
    """Write the node's row where it has news; where only its health is to be written, put it to the ``healthy``.
    Returns whether either is so."""
    status = listener.statuses.get(node.pk)
    was_in_contact = node.is_in_contact(listener.now)
    if status is not None and status.is_leaving:
        return _take_leave(node, listener.now)
    if status is None or listener.node_silent_s(node) > 0:
        return _contact_just_ended(node, listener)
    changes: dict[str, Any] = {"address": status.address, "version": status.version, "standby": status.standby}
    if status.inventory is not None:
        changes["inventory"] = to_builtins(status.inventory)
        if (slots := _requested_slots(node, status.inventory)) is not None:
            changes["slots"] = slots
    own = to_builtins(column_of(status) or {})
    is_new = not was_in_contact or any(getattr(node, name) != value for name, value in changes.items())
    is_new |= troubles_of(own) != troubles_of(node.self_check)
    due = node.seen_at is None or (listener.now - node.seen_at).total_seconds() >= WRITE_EVERY_S
    if not is_new and not due:
        return False
    changes |= {"health": to_builtins(status.health or Health()), "self_check": own, "seen_at": listener.now}
    if is_new:
        Node.objects.filter(pk=node.pk).update(**changes)
    else:
        healthy.append(node)
    for name, value in changes.items():
        setattr(node, name, value)
    return True


def _take_leave(node: Node, now: datetime) -> bool:
    """Count a node that is being stopped as out of contact at once: it would take a new attempt into its own end.
    Returns whether it was in contact."""
    if not node.is_in_contact(now):
        return False
    node.seen_at = now - timedelta(seconds=limits.CONTACT_LOST_S + WRITE_EVERY_S)
    Node.objects.filter(pk=node.pk).update(seen_at=node.seen_at)
    return True


def _requested_slots(node: Node, inventory: Inventory) -> int | None:
    """Return the node's slots where it was started with another ``--slots`` than before, or with none. What it was
    started with before does not undo what an administrator chose since then."""
    before = node.machine.slots
    if inventory.slots == before or (inventory.slots is None and node.slots != before):
        return None
    return max(min(inventory.slots or slots_of(inventory), MAX_SLOTS), node.least_slots())


def _contact_just_ended(node: Node, listener: Listener) -> bool:
    """Return whether this is about the first tick without contact: whoever watches learns it once."""
    if node.seen_at is None:
        return False
    over_s = (listener.now - node.seen_at).total_seconds() - limits.CONTACT_LOST_S
    return 0 < over_s <= WRITE_EVERY_S


# Runs that succeeded before all of their records had arrived: what arrives later corrects their remarks.


def correct_late(now: datetime) -> None:
    """Say of each such run that everything has arrived, once it has. Looks every EVERY_S at most."""
    global _looked_at
    if _looked_at is not None and abs((now - _looked_at).total_seconds()) < EVERY_S:
        return
    _looked_at = now
    runs = Run.objects.filter(status=Status.SUCCEEDED, ended_at__gte=now - FOR, reason_code=INCOMPLETE)
    for run in runs.defer("spec", "estimate").order_by("-ended_at")[:AT_A_TIME]:
        attempt = run.attempts.prefetch_related("placements").latest("number")
        if is_complete(attempt, list(attempt.placements.all())):
            sentence = "Every rank finished, and the last of what they wrote has arrived since."
            run.correct_reason(code="finished", sentence=sentence, instead_of=INCOMPLETE, attempt=attempt)


# Progress of nodes in sending an attempt's output, and the moment when all of it was sent.


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


# Runs outside of Trainyard whose heartbeats have stopped: they are out of contact, and nothing more is known.

SILENCE_S = 30.0  # three heartbeats


def lose_silent_runs(now: datetime, since: float) -> None:
    """Move runs whose last heartbeat is older than SILENCE_S to LOST. The next heartbeat brings them back.

    ``since`` (Unix seconds) is when control began to look: while the server was away it received no heartbeat.
    """
    limit = now - timedelta(seconds=SILENCE_S)
    if since > limit.timestamp():
        return
    for run in Run.objects.filter(status=Status.RUNNING, heartbeat_at__lt=limit).exclude(local_id=None).order_by():
        try:
            run.move_to(Status.LOST, code="no-heartbeat", sentence=_sentence(run))
        except StaleStatus:  # its end has just arrived
            continue


def _sentence(run: Run) -> str:
    assert run.heartbeat_at is not None, "the query asks for it"
    at = run.heartbeat_at.astimezone(UTC)
    words = f"Nothing was heard of it since {at:%Y-%m-%d %H:%M:%S} UTC: it was killed, or it cannot reach this server."
    return f"Logged outside of Trainyard. {words}"
