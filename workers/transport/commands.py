"""The node's Celery application, and the commands that it takes. Each may be lost: control sends the same again."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from celery import Celery

from trainyard.contract.base import BadMessage, WireStruct
from trainyard.contract.desired import Nudge
from trainyard.contract.inspections import Inspect
from trainyard.contract.seals import ATTACH, INSPECT, NUDGE, broker_url, command_scope, node_queue, unseal
from trainyard.contract.sessions import Attach
from workers.transport.broker import OPTIONS, MessageGate

log = structlog.get_logger(__name__)

# A command that waited longer is about a state of affairs that the desired state knows better.
MAX_AGE_S = 60.0
KINDS: dict[str, type[WireStruct]] = {NUDGE: Nudge, INSPECT: Inspect, ATTACH: Attach}

T = TypeVar("T")


class CommandReader:
    """Opens commands to this node. ``now`` is the server's time, by which a command is too old."""

    def __init__(self, node_id: str, key: str, now: Callable[[], float] = time.time) -> None:
        self._node_id, self._key, self._now = node_id, key, now

    def read(self, task: str, sealed: str, kind: type[T]) -> T | None:
        """Return the command, None where it is none to this node: the log says why, and names a field of another
        shape."""
        scope = command_scope(task, self._node_id)
        try:
            return unseal(self._key, scope, sealed, kind, max_age_s=MAX_AGE_S, now=self._now())
        except BadMessage as error:
            log.warning("command.refused", task=task, error=str(error))
            return None

    def gate(self) -> MessageGate:
        return MessageGate(frozenset(KINDS), lambda task, sealed: self.read(task, sealed, KINDS[task]) is not None)


def register(app: Celery, reader: CommandReader, task: str, handle: Callable[[Any], None]) -> None:
    """Give ``app`` the task: ``reader`` opens its commands, ``handle`` carries them out."""

    @app.task(name=task)
    def carry_out(*, sealed: str) -> None:
        if (command := reader.read(task, sealed, KINDS[task])) is not None:
            try:
                handle(command)
            except BadMessage as error:  # a locked document in it does not open: the worker goes on
                log.warning("command.refused", task=task, error=str(error))


def make_app(redis_url: str, node_name: str, gate: MessageGate | None = None) -> Celery:
    # No fixups: with DJANGO_SETTINGS_MODULE in the environment Celery would look for a Django project.
    app = Celery("trainyard-node", fixups=[])
    app.conf.update(
        broker_url=broker_url(redis_url),
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A Valkey whose disk is full answers every command with an error: wait and connect again, do not end.
        broker_channel_error_retry=True,
        broker_transport_options={
            "socket_timeout": 10,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "health_check_interval": 10,
            **OPTIONS,
            "gate": gate,
        },
        accept_content=["json"],
        task_serializer="json",
        task_default_queue=node_queue(node_name),
        task_ignore_result=True,
        worker_prefetch_multiplier=0,  # no limit: with one it reads nothing for up to a second once it is busy
        worker_enable_remote_control=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
    )
    return app
