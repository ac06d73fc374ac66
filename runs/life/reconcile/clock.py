"""The tick, every second, in a thread of control's own: what recovers lost messages must not be a message itself."""

from __future__ import annotations

import time
from datetime import datetime

from runs.life.reconcile.loop import tick
from runs.records.time_use.sums import record_ended
from runs.serving.clock import Clock

EVERY_S = 1.0
TIMES_EVERY_S = 10.0


class Ticks:
    def __init__(self) -> None:
        self._times_due_at = 0.0  # by the monotonic clock

    def round(self, now: datetime) -> None:
        """Tick. Where the time of ended runs went is written now and then: nobody waits for it."""
        if tick(now) and time.monotonic() >= self._times_due_at:
            self._times_due_at = time.monotonic() + TIMES_EVERY_S
            record_ended(now)


def tick_clock() -> Clock:
    return Clock("ticks", Ticks().round, every_s=EVERY_S)  # a tick has a lock, which tasks that reconcile need not
