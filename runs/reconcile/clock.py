"""The tick, every second, in a thread of control's own: what recovers lost messages must not be a message itself."""

from __future__ import annotations

import threading
import time

import structlog
from django.db import close_old_connections, connections
from django.utils import timezone
from redis.exceptions import RedisError

from runs.reconcile.loop import tick
from runs.time_use.sums import record_ended

log = structlog.get_logger(__name__)

EVERY_S = 1.0
TIMES_EVERY_S = 10.0
STOP_LIMIT_S = 2.0


class Clock(threading.Thread):
    """Several control processes may have one: whoever has the lock does the round."""

    def __init__(self) -> None:
        super().__init__(name="clock", daemon=True)
        self._over = threading.Event()
        self._times_due_at = 0.0  # by the monotonic clock

    def stop(self) -> None:
        self._over.set()
        self.join(STOP_LIMIT_S)  # a round that waits for a server that is away may be broken off

    def run(self) -> None:
        is_well = True
        while not self._over.is_set():
            began = time.monotonic()
            close_old_connections()  # one that the database closed is opened again
            try:
                if tick(timezone.now()):
                    self._record_times()
                is_well = True
            except (RedisError, OSError) as error:
                if is_well:  # once per trouble, not once per try
                    log.warning("clock.away", error=str(error))
                is_well = False
            except Exception:  # whatever it is, the next second may be better, and nobody else would try
                log.exception("clock.failed")
            self._over.wait(max(0.05, EVERY_S - (time.monotonic() - began)))
        connections.close_all()

    def _record_times(self) -> None:
        """Write where the time of ended runs went, now and then: nobody waits for it."""
        if time.monotonic() >= self._times_due_at:
            self._times_due_at = time.monotonic() + TIMES_EVERY_S
            record_ended(timezone.now())
