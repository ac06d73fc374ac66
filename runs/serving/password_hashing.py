"""Password hashes are made by few threads of low priority, so that many sign-ins at once slow nothing else.

A hash takes a third of a second of a core on purpose; one thread for each request would take all cores.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from runs.values.refused import Refused

NUM_THREADS = max(1, (os.cpu_count() or 2) // 2)
MAX_WAITING = 32
NICENESS = 10
_places = threading.BoundedSemaphore(MAX_WAITING)


class Busy(Refused):
    """Too many passwords are being checked: one more would wait too long."""

    def __init__(self) -> None:
        super().__init__("busy", "Too many people are signing in at this moment. Try again in a few seconds.")


class Hasher(PBKDF2PasswordHasher):
    """Django's own hash, made in the pool. Raises Busy."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> str:
        if not _places.acquire(blocking=False):
            raise Busy
        try:
            return str(_pool().submit(super().encode, password, salt, iterations).result())
        finally:
            _places.release()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(NUM_THREADS, "password-hash", initializer=_stand_back)


def _stand_back() -> None:
    """Let every other thread go first; on Linux a thread has a priority of its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
