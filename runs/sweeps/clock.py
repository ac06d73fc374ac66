"""Stepping sweeps every second, in a thread of control's own: a slow proposal must not hold up recovery."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import datetime

import structlog
from django.db import close_old_connections, connections
from django.utils import timezone
from redis.exceptions import LockError, RedisError

from runs.models.runs import run_ended
from runs.serving.transport import redis
from runs.sweeps.stepping import Stepper
from trainyard.contract import keys

log = structlog.get_logger(__name__)

EVERY_S = 0.5
STOP_LIMIT_S = 2.0
LOCK_KEY = f"{keys.PREFIX}:control:sweeps-lock"
LOCK_S = 5  # whoever is killed in the middle of a round keeps the others waiting for so long


def step_once(stepper: Stepper, now: datetime) -> bool:
    """Do one round. False when another process is at it. Where a round outlasts the lock, rows keep two from launching
    the same trial."""
    lock = redis().lock(LOCK_KEY, timeout=LOCK_S)
    if not lock.acquire(blocking=False):
        return False
    try:
        stepper.step_all(now)
    finally:
        with contextlib.suppress(LockError):  # the round took longer than the lock lasts
            lock.release()
    return True


class SweepClock(threading.Thread):
    """Several control processes may have one: whoever has the lock does the round."""

    def __init__(self) -> None:
        super().__init__(name="sweeps", daemon=True)
        self._over = threading.Event()
        self._wake = threading.Event()

    def stop(self) -> None:
        self._over.set()
        self._wake.set()
        self.join(STOP_LIMIT_S)

    def _wake_up(self, **_: object) -> None:
        self._wake.set()

    def run(self) -> None:
        stepper, is_well = Stepper(), True
        run_ended.connect(self._wake_up)  # the next trial takes the place at once
        while not self._over.is_set():
            began = time.monotonic()
            self._wake.clear()
            close_old_connections()  # one that the database closed is opened again
            try:
                step_once(stepper, timezone.now())
                is_well = True
            except (RedisError, OSError) as error:
                if is_well:  # once per trouble, not once per try
                    log.warning("sweeps.away", error=str(error))
                is_well = False
            except Exception:  # whatever it is, the next round may be better
                log.exception("sweeps.round_failed")
            self._wake.wait(max(0.05, EVERY_S - (time.monotonic() - began)))
        run_ended.disconnect(self._wake_up)
        connections.close_all()
