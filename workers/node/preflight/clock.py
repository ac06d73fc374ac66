"""How far this machine's clock is from Valkey's, which all machines of a Trainyard can ask."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis

TRIES = 3


def clock_ahead_s(client: redis.Redis, now: Callable[[], float] = time.time) -> float:
    """Return by how much this clock is ahead, to within half of the quickest answer's time. Raises
    redis.RedisError."""
    found = []
    for _ in range(TRIES):
        before = now()
        began = time.monotonic()
        seconds, micros = client.time()
        took_s = time.monotonic() - began
        found.append((took_s, before + took_s / 2 - (seconds + micros / 1e6)))
    return min(found)[1]
