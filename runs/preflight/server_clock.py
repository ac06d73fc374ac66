"""By how much the server's clock is ahead of Valkey's, which may be another machine's."""

from __future__ import annotations

import time
from dataclasses import dataclass

from runs.serving.transport import redis

MEASURED_EVERY_S = 30.0


@dataclass
class ServerClock:
    """The difference of the two clocks, in seconds, measured again when it is older than MEASURED_EVERY_S."""

    _ahead_s: float = 0.0
    _expires_at: float = float("-inf")  # by the monotonic clock

    def ahead_s(self) -> float:
        """Return the difference. Raises redis.RedisError while Valkey is away."""
        if time.monotonic() > self._expires_at:
            before = time.time()
            seconds, micros = redis().time()
            self._ahead_s = (before + time.time()) / 2 - (seconds + micros / 1e6)
            self._expires_at = time.monotonic() + MEASURED_EVERY_S
        return self._ahead_s
