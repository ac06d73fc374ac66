"""The only place that speaks to the channel layer. Every message is a hint with a cursor: what is lost is refetched."""

from __future__ import annotations

from typing import Any

import structlog
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

log = structlog.get_logger(__name__)

OVERVIEW_GROUP = "overview"


def run_group(run_id: str) -> str:
    return f"run.{run_id}"


def run_changed(run_id: str) -> None:
    """Say that the run's row, attempts, events or files changed."""
    _send(run_group(run_id), {"type": "run"})
    _send(OVERVIEW_GROUP, {"type": "run", "run": run_id})


def run_batch(run_id: str, batch: dict[str, Any]) -> None:
    """Send what ingest committed (see runs.metrics.delta) to whoever watches the run."""
    _send(run_group(run_id), {"type": "batch", **batch})


def run_progressed(run_id: str) -> None:
    """Say to the overview, not to the run's own page, that a run stepped on."""
    _send(OVERVIEW_GROUP, {"type": "run", "run": run_id})


def nodes_changed() -> None:
    """Say that some node's health, slots or contact changed."""
    _send(OVERVIEW_GROUP, {"type": "nodes"})


def _send(group: str, message: dict[str, Any]) -> None:
    """Hand the message to the layer as ``{"type": "push", "message": …}``; a dead layer costs a log line."""
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(group, {"type": "push", "message": message})
    except Exception as error:  # whatever the connection raises: the cursor makes a lost hint harmless
        log.warning("push.lost", group=group, error=str(error))
