"""Where the time of runs went, in its REST shape."""

from __future__ import annotations

from runs.time_use.split import TimeUse
from trainyard.contract.facts import TimeDocument


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
