"""The commands that a node takes over Celery. Each may be lost: control says the same again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import structlog
from celery import Celery

from workers.contract import GO, INSPECT, NUDGE, PREPARE, BadSeal, Document, command_scope, unseal
from workers.transport.broker import Gate

log = structlog.get_logger(__name__)

# A command that waited longer is about a state of affairs that the down document knows better.
MAX_AGE_S = 60.0
TASKS = frozenset((PREPARE, GO, NUDGE, INSPECT))


class Commands(Protocol):
    """What a node worker can be told."""

    def prepare(self, order: Document) -> None: ...

    def go(self, command: Document) -> None: ...

    def nudge(self) -> None: ...

    def inspect(self, question: Document) -> None: ...


class Opener:
    """Opens commands to this node. ``now`` is the server's time, by which a command is too old."""

    def __init__(self, node_id: str, key: str, now: Callable[[], float] = time.time) -> None:
        self._node_id = node_id
        self._key = key
        self._now = now

    def __call__(self, task: str, sealed: str) -> Document | None:
        """Return what was sealed, None where that is no command to this node."""
        scope = command_scope(task, self._node_id)
        try:
            return unseal(self._key, scope, sealed, max_age_s=MAX_AGE_S, now=self._now())
        except BadSeal as error:
            log.warning("command.refused", task=task, error=str(error))
            return None

    def gate(self) -> Gate:
        return Gate(TASKS, lambda task, sealed: self(task, sealed) is not None)


def register(app: Celery, opened: Opener, commands: Commands) -> None:
    """Give ``app`` the tasks, bound to the node whose commands ``opened`` opens."""

    @app.task(name=PREPARE)
    def prepare(*, sealed: str) -> None:
        if (order := opened(PREPARE, sealed)) is not None:
            commands.prepare(order)

    @app.task(name=GO)
    def go(*, sealed: str) -> None:
        if (command := opened(GO, sealed)) is not None:
            commands.go(command)

    @app.task(name=NUDGE)
    def nudge(*, sealed: str) -> None:
        if opened(NUDGE, sealed) is not None:
            commands.nudge()

    @app.task(name=INSPECT)
    def inspect(*, sealed: str) -> None:
        if (question := opened(INSPECT, sealed)) is not None:
            commands.inspect(question)
