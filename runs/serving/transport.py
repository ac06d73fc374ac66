"""The way to Valkey: one client per process. What is in there is transport, never the only copy of anything."""

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import TypeVar

import redis as redis_library
from django.conf import settings

T = TypeVar("T")


def made_once(make: Callable[[], T]) -> Callable[[], T]:
    """Make it at the first call and return the same one ever after, to threads that ask first at one moment too.

    A second client that nobody keeps would close its connections as it goes, and with them the one that a pipeline
    of its still uses.
    """
    making, made = Lock(), cache(make)

    @wraps(make)
    def the_one() -> T:
        with making:
            return made()

    return the_one


@made_once
def redis() -> redis_library.Redis:
    """Return this process's client; it connects when used, and again after the server went away."""
    return connect(settings.REDIS_URL)


def connect(url: str) -> redis_library.Redis:
    """Return a client that never waits for ever: blocking reads stay below ``socket_timeout``."""
    return redis_library.Redis.from_url(
        url, socket_timeout=10, socket_connect_timeout=5, health_check_interval=15, decode_responses=False
    )
