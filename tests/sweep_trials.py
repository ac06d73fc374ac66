"""Trials of a sweep as plain values, for what reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from runs.sweeps.analysis.best import TrialPoint

START = datetime(2026, 1, 1, tzinfo=UTC)


def trial(
    number: int, value: float | None = None, parameters: dict[str, Any] | None = None, **changes: Any
) -> TrialPoint:
    """A complete trial that took 10 rank-seconds, and ended as many minutes after the start as its number says."""
    usual: dict[str, Any] = {"state": "COMPLETE", "values": (), "steps": 100, "rank_seconds": 10.0}
    usual["ended_at"] = START + timedelta(minutes=number)
    return TrialPoint(number=number, value=value, parameters=parameters or {}, **usual | changes)
