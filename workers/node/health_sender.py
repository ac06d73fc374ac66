"""Health samples on their way to the metric store: entries of the stream without a run."""

from __future__ import annotations

import time

import msgspec
import redis

from trainyard.contract.base import encode
from trainyard.contract.keys import stream_key
from trainyard.contract.limits import STREAM_LIMIT_ENTRIES
from trainyard.contract.machines import Health, HealthSample
from trainyard.contract.seals import frames_scope, mac
from workers.transport.node_config import NodeConfig

HEALTH_SHARD = 0


class HealthSender:
    def __init__(self, client: redis.Redis, config: NodeConfig) -> None:
        self._client = client
        self._config = config

    def send(self, health: Health) -> None:
        """Append the sample unless the stream is full: old samples are worth nothing. Raises redis.RedisError."""
        stream = stream_key(HEALTH_SHARD)
        if self._client.xlen(stream) >= STREAM_LIMIT_ENTRIES:
            return
        data = encode(HealthSample(at=time.time(), **msgspec.structs.asdict(health))).encode()
        seal = mac(self._config.key, frames_scope(self._config.id, "", 0), data)
        self._client.xadd(stream, {"n": self._config.id, "r": "", "a": "", "f": 0, "d": data, "m": seal})
