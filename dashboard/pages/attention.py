"""Which runs need a person, each with the reason in one line and the one action that helps."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dashboard.pages.rows import Row
from runs.status import Status

LATELY = timedelta(hours=24)
WAITS_LONG = timedelta(minutes=10)
MAX_FAILED = 5
SEVERITY = ("red", "rust", "amber", "grey")


class Need(NamedTuple):
    row: Row
    sentence: str
    colour: str
    verb: str  # a verb of run_verbs, or "" where looking is what helps
    label: str


def failed_lately(runs: Any, now: datetime) -> Any:
    """Runs that failed within a day and that nobody has restarted or archived since."""
    return runs.filter(status=Status.FAILED, ended_at__gte=now - LATELY).order_by("-ended_at")[:MAX_FAILED]


def needs(live: list[Row], failed: list[Row], now: datetime) -> list[Need]:
    found = [
        Need(row, row.run.reason_sentence, "red", *(("", "") if row.run.is_local else ("restart", "Restart")))
        for row in failed
    ]
    for row in live:
        need = _need(row, now)
        if need is not None:
            found.append(need)
    return sorted(found, key=lambda need: SEVERITY.index(need.colour))


def _need(row: Row, now: datetime) -> Need | None:
    run = row.run
    if run.is_local:  # its end comes with the next sync, or never: nothing to be alarmed about
        return Need(row, run.reason_sentence, "grey", "give-up", "Give up")
    if run.status == Status.LOST:
        return Need(row, run.reason_sentence, "rust", "give-up", "Give up")
    if run.status == Status.RECOVERING:
        return Need(row, run.reason_sentence, "amber", "", "")
    if run.status == Status.QUEUED and now - run.created_at > WAITS_LONG:
        return Need(row, run.reason_sentence, "grey", "stop", "Cancel")
    for lamp in row.lamps:
        if run.status == Status.RUNNING and lamp["colour"] == "red":
            return Need(row, lamp["sentence"], "amber", "", "")
    return None
