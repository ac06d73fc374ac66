"""Trials of a sweep as plain values, for what reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Trial:
    number: int
    value: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    state: str = "COMPLETE"
    values: tuple[float, ...] = ()
    started_at: datetime | None = START
    ended_at: datetime | None = None
    steps: int | None = 100
    rank_seconds: float = 10.0


def trial(number: int, value: float | None = None, parameters: dict[str, Any] | None = None, **changes: Any) -> Trial:
    """A complete trial that took 10 rank-seconds, and ended as many minutes after the start as its number says."""
    changes.setdefault("ended_at", START + timedelta(minutes=number))
    return Trial(number, value, parameters or {}, **changes)
