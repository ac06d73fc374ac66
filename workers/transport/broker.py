"""Celery's messages on their way out of Valkey, with a gate before Celery: foreign messages never reach it.

Whoever reaches the broker can put anything into a queue. Celery's own reader ends its worker for what is not JSON, and
a worker runs any task that it knows of, its built-in ones too, with whatever callbacks a message names. So of a message
only the task's name and the sealed argument are read, and Celery is handed one that was made anew from these.

Messages are hints that are sent again: none is kept until it is acknowledged, and with that kombu's own hashes of
unacknowledged messages, whose content nobody seals, are not read.
"""

import base64
import functools
import json
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import redis as redis_library
import structlog
from celery import signals
from celery.exceptions import CPendingDeprecationWarning
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as kombu_redis

from trainyard.contract.base import JsonObject, decode

log = structlog.get_logger(__name__)

LOG_EVERY = 1000  # of many that are dropped
NOTHING = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
OPTIONS: dict[str, Any] = {"ack_emulation": False}


class ForeignMessage(ValueError):
    """A message that is not from us; the text says why and holds nothing of it."""


class MessageGate:
    """Lets a message of these tasks pass whose one argument ``sealed`` opens: ``opens(task, sealed)``. Every other is
    dropped, counted, and ``on_drop`` is called."""

    def __init__(
        self, tasks: frozenset[str], opens: Callable[[str, str], bool], on_drop: Callable[[], object] = lambda: None
    ) -> None:
        self._tasks, self._opens, self._on_drop = tasks, opens, on_drop
        self.num_dropped = 0

    def filtered(self, queue: str, raw: bytes) -> bytes | None:
        """Return the message as Celery may have it, None where it is dropped. Raises nothing."""
        try:
            task, sealed = read_message(raw)
            if task not in self._tasks:
                raise ForeignMessage("it names no task of ours")
            if not self._opens(task, sealed):
                raise ForeignMessage("its seal does not fit, or it is too old")
            return rebuilt_message(queue, task, sealed)
        except ForeignMessage as error:
            self._drop(queue, str(error))
        except Exception as error:  # no message may end the worker
            self._drop(queue, f"it could not be read: {type(error).__name__}")
        return None

    def _drop(self, queue: str, why: str) -> None:
        self.num_dropped += 1
        if self.num_dropped % LOG_EVERY == 1:
            log.warning("message.dropped", queue=queue, why=why, dropped_so_far=self.num_dropped)
        try:
            self._on_drop()
        except (redis_library.RedisError, OSError) as error:
            log.warning("message.not_counted", error=str(error))


def read_message(raw: bytes) -> tuple[str, str]:
    """Return task and sealed argument of a message. Raises ForeignMessage."""
    try:
        message = decode(raw, JsonObject)
        arguments, named, _ = decode(base64.b64decode(message["body"], validate=True), list[Any])
        task = message["headers"]["task"]
    except (ValueError, TypeError, KeyError) as error:
        raise ForeignMessage("it is no message") from error
    if arguments or not isinstance(task, str) or not isinstance(named, Mapping) or set(named) != {"sealed"}:
        raise ForeignMessage("it has other arguments than ours")
    if not isinstance(named["sealed"], str):
        raise ForeignMessage("it is not sealed")
    return task, named["sealed"]


def rebuilt_message(queue: str, task: str, sealed: str) -> bytes:
    """Return a message as Celery itself sends it, with nothing of the old one's headers and properties."""
    name = str(uuid.uuid4())
    headers: dict[str, Any] = {"lang": "py", "task": task, "id": name, "root_id": name, "parent_id": None}
    headers |= {"group": None, "eta": None, "expires": None, "retries": 0, "timelimit": [None, None]}
    headers |= {"argsrepr": "()", "kwargsrepr": "{}"}
    message = {
        "body": base64.b64encode(json.dumps([[], {"sealed": sealed}, NOTHING]).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {**headers, "origin": "", "ignore_result": True},
        "properties": {
            "correlation_id": name,
            "reply_to": "",
            "delivery_mode": 1,
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": name,
        },
    }
    return json.dumps(message).encode()


class GuardedClient(redis_library.Redis):
    """Reads queues through the gate: a message that is dropped looks as if none had come."""

    def __init__(self, *args: Any, gate: MessageGate, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gate = gate

    def parse_response(self, connection: Any, command_name: str, **options: Any) -> Any:
        response = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name != "BRPOP" or not response:
            return response
        queue, raw = response
        passed = self._gate.filtered(queue.decode("utf-8", "replace"), raw)
        return None if passed is None else (queue, passed)


class Channel(kombu_redis.Channel):
    """A channel whose transport options may hold a ``gate``."""

    gate: MessageGate | None = None
    do_restore = False  # a hint that a worker had read when it ended is sent again by the next tick
    from_transport_options = (*kombu_redis.Channel.from_transport_options, "gate")

    def _get_client(self) -> Any:
        client = super()._get_client()  # type: ignore[misc]  # its types leave it out
        return client if self.gate is None else functools.partial(GuardedClient, gate=self.gate)


class Transport(kombu_redis.Transport):
    Channel = Channel


# kombu finds a transport by the scheme of the broker's URL alone.
TRANSPORT_ALIASES |= dict.fromkeys(("redis", "rediss"), f"{__name__}:Transport")


@signals.worker_ready.connect(weak=False)
def expect_losses(**_: Any) -> None:
    """Keep Celery from explaining, at each loss of Valkey, a default of a coming version: what a task of ours begins
    outlives the connection. A worker that starts turns the warning on."""
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
