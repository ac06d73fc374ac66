"""The way to Valkey: one client per process. What is in there is transport, never the only copy of anything."""

from __future__ import annotations

from functools import cache

import redis as redis_library
from django.conf import settings


@cache
def redis() -> redis_library.Redis:
    """Return this process's client; it connects when used, and again after the server went away."""
    return connect(settings.REDIS_URL)


def connect(url: str) -> redis_library.Redis:
    """Return a client that never waits for ever: blocking reads stay below ``socket_timeout``."""
    return redis_library.Redis.from_url(
        url, socket_timeout=10, socket_connect_timeout=5, health_check_interval=15, decode_responses=False
    )
