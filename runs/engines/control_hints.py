"""Messages to Celery's queues; among them hints to control, sealed with a key that only the server has. Each only
makes faster what the tick does anyway."""

import time
from functools import cache
from typing import TypeVar

import structlog
from celery import current_app
from django.utils.crypto import salted_hmac
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from trainyard.contract.base import BadMessage, WireStruct
from trainyard.contract.seals import CONTROL_QUEUE, RECONCILE_RUN, control_scope, seal, unseal

log = structlog.get_logger(__name__)

SCHEDULE = "runs.tasks.schedule"
EXPIRES_S = 10  # a message that waited longer is stale: the state documents have newer content
MAX_AGE_S = 60.0  # of a hint, by the clocks of two machines


class ReconcileHint(WireStruct):
    """The run has news, or somebody wants something of it."""

    run_id: str
    at: float  # Unix seconds


class ScheduleHint(WireStruct):
    """The cluster's queue or its room has changed."""

    cluster_id: str
    at: float  # Unix seconds


Hint = TypeVar("Hint", ReconcileHint, ScheduleHint)


def request_reconcile(run_id: str) -> None:
    _send(RECONCILE_RUN, ReconcileHint(run_id, time.time()))


def request_schedule(cluster_id: str) -> None:
    _send(SCHEDULE, ScheduleHint(cluster_id, time.time()))


def opened(task: str, sealed: str, kind: type[Hint]) -> Hint | None:
    """Return the hint, None where the server itself did not seal it, or long ago."""
    try:
        return unseal(control_key(), control_scope(task), sealed, kind, max_age_s=MAX_AGE_S)
    except BadMessage as error:
        log.info("engine.refused", task=task, error=str(error))
        return None


def is_ours(task: str, sealed: str) -> bool:
    """Return whether a message is a hint that the server itself sealed a moment ago."""
    if task == RECONCILE_RUN:
        return opened(task, sealed, ReconcileHint) is not None
    return task == SCHEDULE and opened(task, sealed, ScheduleHint) is not None


@cache
def control_key() -> str:
    """Return the key of control's own messages, 64 hex digits. Only who knows the server's secret can make it."""
    return salted_hmac("runs.engine", "control", algorithm="sha256").hexdigest()


def _send(task: str, hint: WireStruct) -> None:
    publish(task, CONTROL_QUEUE, seal(control_key(), control_scope(task), hint))


def publish(task: str, queue: str, sealed: str) -> None:
    """Put one message on a queue. A broker that is away costs a log line, since the tick repeats it."""
    arguments = {"sealed": sealed}
    try:
        current_app.send_task(task, kwargs=arguments, queue=queue, ignore_result=True, expires=EXPIRES_S, retry=False)
    except (KombuError, RedisError, OSError) as error:
        log.warning("engine.not_sent", task=task, queue=queue, error=str(error))
