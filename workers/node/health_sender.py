"""Health samples on their way to the metric store: entries of the stream without a run."""

from __future__ import annotations

import json
import time

import redis

from workers.contract import STREAM_LIMIT_ENTRIES, Document, frames_scope, mac, stream_key
from workers.node.config import NodeConfig

HEALTH_SHARD = 0


class HealthSender:
    def __init__(self, client: redis.Redis, config: NodeConfig) -> None:
        self._client = client
        self._config = config

    def send(self, health: Document) -> None:
        """Append the sample unless the stream is full: old samples are worth nothing. Raises redis.RedisError."""
        stream = stream_key(HEALTH_SHARD)
        if self._client.xlen(stream) >= STREAM_LIMIT_ENTRIES:
            return
        data = json.dumps({"at": time.time(), **health}).encode()
        seal = mac(self._config.key, frames_scope(self._config.id, "", 0), data)
        self._client.xadd(stream, {"n": self._config.id, "r": "", "a": "", "f": 0, "d": data, "m": seal})
