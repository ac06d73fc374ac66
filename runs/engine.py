"""Messages to Celery: commands to nodes, hints to control. Each only makes faster what the tick does anyway."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import structlog
from celery import current_app
from django.conf import settings
from django.utils.crypto import salted_hmac
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from runs.models import Node
from trainyard.contract import keys, seals
from workers import contract

log = structlog.get_logger(__name__)

EXPIRES_S = 10  # a command that waited longer is stale: the down document says the same, newer
MAX_AGE_S = 60.0  # of a hint to control, by the clocks of two machines


def command(node: Node, task: str, document: contract.Document) -> None:
    """Send one sealed command to the node's queue."""
    sealed = seals.seal(node.key, seals.command_scope(task, node.pk), {"at": time.time(), **document})
    _put(task, keys.node_queue(node.name), sealed)


def send(task: str, queue: str, **arguments: Any) -> None:
    """Send one sealed hint to control."""
    _put(task, queue, seals.seal(control_key(), seals.control_scope(task), {"at": time.time(), **arguments}))


def opened(task: str, sealed: str) -> contract.Document | None:
    """Return the arguments of a hint, None where the server itself did not seal it, or long ago."""
    try:
        return contract.unseal(control_key(), seals.control_scope(task), sealed, max_age_s=MAX_AGE_S)
    except seals.BadSeal as error:
        log.info("engine.refused", task=task, error=str(error))
        return None


@cache
def control_key() -> str:
    """Return the key of control's own messages, 64 hex digits. Only who knows the server's secret can make it."""
    return salted_hmac("runs.engine", "control", secret=settings.SECRET_KEY, algorithm="sha256").hexdigest()


def _put(task: str, queue: str, sealed: str) -> None:
    """Put one message on a queue; a broker that is away costs a log line, since the tick repeats it."""
    arguments = {"sealed": sealed}
    try:
        current_app.send_task(task, kwargs=arguments, queue=queue, ignore_result=True, expires=EXPIRES_S, retry=False)
    except (KombuError, RedisError, OSError) as error:
        log.warning("engine.not_sent", task=task, queue=queue, error=str(error))
