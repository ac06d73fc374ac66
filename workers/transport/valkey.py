"""Connections to the server's Valkey."""

from __future__ import annotations

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def connect(url: str) -> redis.Redis:
    """Return a client that gives up quickly: its users try again a second later anyway."""
    return redis.Redis.from_url(
        url,
        socket_timeout=2.0,
        socket_connect_timeout=1.0,
        health_check_interval=30,
        retry=Retry(NoBackoff(), 0),
    )
