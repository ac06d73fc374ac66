"""Rates of requests of a person and a token: a bucket each in Valkey, for all web processes together.

A bucket holds BURST_S seconds' worth of requests and fills again at its rate. While Valkey cannot count, nobody is
refused: what protects the server must not be what stops it.
"""

import time
from math import ceil
from typing import Any

import redis as redis_library
import structlog
from django.conf import settings

from runs.serving.transport import made_once

log = structlog.get_logger(__name__)

PREFIX = "trainyard:rate"
BURST_S = 10
TIMEOUT_S = 0.5
AGAIN_S = 5.0  # after Valkey did not answer
# Takes one from each bucket, or from none where one of them is empty; returns the seconds to wait. Times are Valkey's.
TAKE = """
local parts = redis.call('TIME')
local now = parts[1] + parts[2] / 1000000
local wait, left = 0, {}
for index, key in ipairs(KEYS) do
  local rate, size = tonumber(ARGV[index * 2 - 1]), tonumber(ARGV[index * 2])
  local kept = redis.call('HMGET', key, 'left', 'at')
  local was, at = tonumber(kept[1]) or size, tonumber(kept[2]) or now
  left[index] = math.min(size, was + math.max(0, now - at) * rate)
  if left[index] < 1 then wait = math.max(wait, (1 - left[index]) / rate) end
end
if wait > 0 then return tostring(wait) end
for index, key in ipairs(KEYS) do
  local rate, size = tonumber(ARGV[index * 2 - 1]), tonumber(ARGV[index * 2])
  redis.call('HSET', key, 'left', string.format('%.6f', left[index] - 1), 'at', string.format('%.6f', now))
  redis.call('EXPIRE', key, math.ceil(size / rate) + 1)
end
return '0'
"""


class TooManyRequests(Exception):
    """``wait_s``: whole seconds after which another request is taken."""

    def __init__(self, wait_s: int, who: str) -> None:
        self.wait_s = wait_s
        self.sentence = f"{who} sends more requests than this server takes. Try again in {wait_s} s."
        super().__init__(self.sentence)


def claim(*, person: int, token: str = "") -> None:
    """Count a request of the person, by the token with this id if any. Raises TooManyRequests."""
    buckets = {f"{PREFIX}:person:{person}": settings.RATE_PER_PERSON}
    if token:
        buckets[f"{PREFIX}:token:{token}"] = settings.RATE_PER_TOKEN
    limited = {key: rate for key, rate in buckets.items() if rate > 0}
    wait_s = _take(limited) if limited else 0.0
    if wait_s > 0:
        raise TooManyRequests(max(1, ceil(wait_s)), "This token, or its owner," if token else "Your account")


def _take(buckets: dict[str, float]) -> float:
    """Return the seconds to wait, 0 where the request was counted or Valkey cannot count."""
    global _again_at
    if time.monotonic() < _again_at:
        return 0.0
    arguments = [number for rate in buckets.values() for number in (rate, max(1.0, rate * BURST_S))]
    try:
        return float(_script()(keys=list(buckets), args=arguments))
    except (redis_library.RedisError, OSError) as error:
        _again_at = time.monotonic() + AGAIN_S
        log.warning("rate.not_counted", error=str(error))
        return 0.0


_again_at = 0.0


@made_once
def _script() -> Any:
    url, timeout_s = settings.REDIS_URL, TIMEOUT_S
    client = redis_library.Redis.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
    return client.register_script(TAKE)


class Throttle:
    """Limit of one message in ``every_s`` seconds on average and never more than two in one; the first goes at once.

    One may come early because of jitter: messages of every 100 ms arrive after 97, then after 103, and a limit of
    exactly 100 would delay half of them. (The generic cell rate algorithm with a burst of two.)
    Times are seconds of a monotonic clock.
    """

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self._next_at = float("-inf")  # when the next one would come, if they came evenly

    def wait_s(self, now: float) -> float:
        """Seconds until the next may go, 0 where it may go now."""
        return max(0.0, self._next_at - self.every_s - now)

    def record(self, now: float, *, every_s: float | None = None) -> None:
        """Record that a message went. ``every_s``: the wait after this one, without one that is early."""
        if every_s is None:
            self._next_at = max(self._next_at, now) + self.every_s
        else:
            self._next_at = now + every_s + self.every_s
