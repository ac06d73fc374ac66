"""Runs outside of Trainyard whose heartbeats have stopped: they are out of contact, and nothing more is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from runs.models import Run
from runs.models.runs import StaleStatus
from runs.values.status import Status

SILENCE_S = 30.0  # three heartbeats


def lose_silent_runs(now: datetime, since: float) -> None:
    """Move runs whose last heartbeat is older than SILENCE_S to LOST. The next heartbeat brings them back.

    ``since`` (Unix seconds) is when control began to look: while the server was away it received no heartbeat.
    """
    limit = now - timedelta(seconds=SILENCE_S)
    if since > limit.timestamp():
        return
    silent = Run.objects.filter(status=Status.RUNNING, heartbeat_at__lt=limit).exclude(local_id=None)
    for run in silent.order_by():
        try:
            run.move_to(Status.LOST, code="no-heartbeat", sentence=_sentence(run))
        except StaleStatus:  # its end has just arrived
            continue


def _sentence(run: Run) -> str:
    assert run.heartbeat_at is not None, "the query asks for it"
    at = run.heartbeat_at.astimezone(UTC)
    return (
        f"Logged outside of Trainyard. Nothing was heard of it since {at:%Y-%m-%d %H:%M:%S} UTC: "
        "it was killed, or it cannot reach this server."
    )
