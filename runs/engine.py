"""Messages to Celery: commands to nodes, hints to control. Each only makes faster what the tick does anyway."""

from __future__ import annotations

import time
from typing import Any

import structlog
from celery import current_app
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from runs.models import Node
from workers import contract

log = structlog.get_logger(__name__)

EXPIRES_S = 10  # a command that waited longer is stale: the down document says the same, newer


def command(node: Node, task: str, document: contract.Document) -> None:
    """Send one sealed command to the node's queue."""
    sealed = contract.seal(node.key, contract.command_scope(task, node.pk), {"at": time.time(), **document})
    send(task, contract.node_queue(node.name), sealed=sealed)


def send(task: str, queue: str, **arguments: Any) -> None:
    """Put one message on a queue; a broker that is away costs a log line, since the tick repeats it."""
    try:
        current_app.send_task(task, kwargs=arguments, queue=queue, ignore_result=True, expires=EXPIRES_S, retry=False)
    except (KombuError, RedisError, OSError) as error:
        log.warning("engine.not_sent", task=task, queue=queue, error=str(error))
