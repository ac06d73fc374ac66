"""Where the time of runs went, in its REST shape."""

from __future__ import annotations

from typing import TypedDict

from runs.time_use.split import TimeUse


class TimeDocument(TypedDict):
    """Where the time of a run, or of many, went, in seconds; the parts add up to ``total_s``."""

    queued_s: float
    starting_s: float
    productive_s: float
    recomputed_s: float
    checkpoint_s: float
    detection_s: float
    restart_s: float
    paused_s: float
    total_s: float
    goodput: float | None


def time_document(time: TimeUse) -> TimeDocument:
    return {
        "queued_s": time.queued_s,
        "starting_s": time.starting_s,
        "productive_s": time.productive_s,
        "recomputed_s": time.recomputed_s,
        "checkpoint_s": time.checkpoint_s,
        "detection_s": time.detection_s,
        "restart_s": time.restart_s,
        "paused_s": time.paused_s,
        "total_s": time.total_s,
        "goodput": None if time.goodput is None else round(time.goodput, 6),
    }
