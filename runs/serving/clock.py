"""Clocks: threads of control that do one thing again and again, and that nothing which happens in a round ends."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime

import structlog
from django.db import close_old_connections, connections
from django.utils import timezone
from redis.exceptions import LockError, RedisError
from redis.lock import Lock

from runs.serving.database_away import is_away
from runs.serving.transport import redis
from trainyard.contract.seals import PREFIX

log = structlog.get_logger(__name__)

STOP_LIMIT_S = 2.0
LEAST_REST_S = 0.05


@contextlib.contextmanager
def only_one(key: str, lock_s: float) -> Iterator[Lock | None]:
    """Yield the lock, or None where somebody else is at it, in any process. Whoever is killed in the middle of it keeps
    the others waiting for ``lock_s``."""
    lock = redis().lock(key, timeout=lock_s)
    if not lock.acquire(blocking=False):
        yield None
        return
    try:
        yield lock
    finally:
        with contextlib.suppress(LockError):  # it took longer than the lock lasts
            lock.release()


class Clock(threading.Thread):
    """Does a round every so many seconds, and at once when it is woken, until it is stopped.

    What a round needs and does not reach (database, Valkey, another server) is said once per trouble; any other error
    each time, with its traceback. The next round comes all the same: nobody else would try. Each control process has
    the clock; with ``lock_s`` whoever has the lock of its name does the round.
    """

    def __init__(
        self,
        name: str,
        round_once: Callable[[datetime], object],
        *,
        every_s: float,
        lock_s: float | None = None,
        wake: threading.Event | None = None,
    ) -> None:
        """``wake``: an event of others, which wakes it too."""
        super().__init__(name=name, daemon=True)
        self._round_once, self._every_s, self._lock_s = round_once, every_s, lock_s
        self._over = threading.Event()
        self._awake = wake or threading.Event()
        self._is_well = True

    def wake(self, **_: object) -> None:
        """Have the next round come at once. It takes what a signal brings."""
        self._awake.set()

    def stop(self) -> None:
        """End it; a round that waits for a server that is away may be broken off."""
        self._over.set()
        self._awake.set()
        self.join(STOP_LIMIT_S)

    def run(self) -> None:
        while True:
            self._awake.clear()  # before the look at the end: its waking must not be lost
            if self._over.is_set():
                break
            began = time.monotonic()
            self._try_round()
            self._awake.wait(max(LEAST_REST_S, self._every_s - (time.monotonic() - began)))
        connections.close_all()

    def _try_round(self) -> None:
        try:
            self._do_round()
            self._is_well = True
        except Exception as error:
            if not isinstance(error, RedisError | OSError) and not is_away(error):
                log.exception("clock.failed", clock=self.name)
                return
            if self._is_well:
                log.warning("clock.away", clock=self.name, error=str(error))
            self._is_well = False
        finally:
            close_old_connections()  # between its rounds others have it

    def _do_round(self) -> None:
        if self._lock_s is None:
            self._round_once(timezone.now())
            return
        with only_one(f"{PREFIX}:control:{self.name}-lock", self._lock_s) as lock:
            if lock is not None:
                self._round_once(timezone.now())
