"""The only place that uses the channel layer. Every message is a hint with a cursor: what is lost is refetched.

Publishers are not asynchronous (ingest, control, request threads), and there the layer's own method makes an event loop
and a connection for each message: 2 ms of processor time. So messages are written in the layer's format over the
process's own connection, all of a round at once.
"""

from collections.abc import Iterable
from typing import TypedDict

import structlog
from channels.layers import get_channel_layer
from django.conf import settings
from redis.exceptions import RedisError

from runs.serving.transport import redis

log = structlog.get_logger(__name__)

OVERVIEW_GROUP = "overview"

# Messages of a group of the channel layer; ``from`` and the rest are those of a batch.
Message = TypedDict(
    "Message",
    {"type": str, "run": str, "sweep": str, "cursor": int, "from": int, "texts": list[str], "steps": list[int] | None},
    total=False,
)


def run_group(run_id: str) -> str:
    return f"run.{run_id}"


def run_changed(run_id: str) -> None:
    """Say that the run's row, attempts, events or files changed."""
    runs_changed([run_id])


def runs_changed(run_ids: Iterable[str]) -> None:
    """The same for many runs, all at once."""
    ids = list(run_ids)
    runs_progressed(((run_id, {"type": "run"}) for run_id in ids), ids)


def run_moved(run_id: str, cursor: int) -> None:
    """Say that the run's cursor moved, to whoever watches the run: they read what is new as often as they may."""
    _send((run_group(run_id), {"type": "moved", "cursor": cursor}))


def runs_progressed(batches: Iterable[tuple[str, Message]], run_ids: Iterable[str]) -> None:
    """Send each batch to the pages of its run, and to the overview which runs have new points."""
    _send(
        *((run_group(run_id), batch) for run_id, batch in batches),
        *((OVERVIEW_GROUP, Message(type="run", run=run_id)) for run_id in run_ids),
    )


def nodes_changed() -> None:
    """Notify pages that some node's health, slots or contact changed."""
    _send((OVERVIEW_GROUP, {"type": "nodes"}))


def datasets_changed() -> None:
    """Notify pages that some dataset was added, inspected or deleted; not which, since every page gets it."""
    _send((OVERVIEW_GROUP, {"type": "datasets"}))


def notices_changed(run_ids: Iterable[str]) -> None:
    """Notify pages that somebody has a new notice, all that are no run's and those of these runs; not whom."""
    message: Message = {"type": "notices"}
    _send((OVERVIEW_GROUP, message), *((run_group(run_id), message) for run_id in run_ids))


def sweep_changed(sweep_id: str) -> None:
    """Say that the sweep or one of its trials changed, to the overview: pages of sweeps read it again."""
    _send((OVERVIEW_GROUP, {"type": "sweep", "sweep": sweep_id}))


def _send(*messages: tuple[str, Message]) -> None:
    """Publish each message to its group as ``{"type": "push", "message": …}``; a dead Valkey costs a log line."""
    layer = get_channel_layer()
    prefix = settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"]
    pipeline = redis().pipeline(transaction=False)
    for group, message in messages:
        pipeline.publish(f"{prefix}__group__{group}", layer.serialize({"type": "push", "message": message}))
    try:
        pipeline.execute()
    except RedisError as error:  # the cursor makes a lost hint harmless
        log.warning("push.lost", messages=len(messages), error=str(error))
