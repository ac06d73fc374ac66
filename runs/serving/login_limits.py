"""Limits of tries of passwords: pauses that grow with the attempts, by account and by address.

The attempts are counted in Valkey, for all web processes together; while it cannot count, each process does.
"""

import hashlib
import ipaddress
import time
from collections.abc import Iterator
from functools import cache
from math import ceil

import structlog
from limits import RateLimitItem, parse_many
from limits.errors import StorageError
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import MovingWindowRateLimiter

from runs.serving.transport import redis

log = structlog.get_logger(__name__)

# Each number of attempts has its pause: who has tried 5 times waits up to a minute, after 10 up to a quarter of an
# hour, and so on. An attempt that is refused is not counted, so a pause ends whatever is sent meanwhile.
BY_ACCOUNT = parse_many("5/minute;10/15 minutes;20/hour;50/day")
BY_ADDRESS = parse_many("30/minute;100/15 minutes;300/hour")

Keys = tuple[str, ...]


def claim(*, account: str, address: str | None, browser: str = "") -> int:
    """Count an attempt and return 0; or return the seconds to wait, where it is one too many.

    ``browser`` is one in which the person has signed in before. It is counted apart, so that a stranger who tries all
    the time cannot keep the person out of there.
    """
    limits = [*_of_account(account, browser)]
    if address is not None:
        limits += [(limit, ("address", network(address))) for limit in BY_ADDRESS]
    try:
        return _claim(_shared(), limits)
    except StorageError as error:
        log.warning("sign_in.not_counted_in_valkey", error=str(error))
        return _claim(_own(), limits)


def forget(*, account: str, browser: str = "") -> None:
    """The password was right: the account's attempts start anew. Those of the address stay."""
    for limit, keys in _of_account(account, browser):
        _own().clear(limit, *keys)
        try:
            _shared().clear(limit, *keys)
        except StorageError as error:
            log.warning("sign_in.not_counted_in_valkey", error=str(error))


def network(address: str) -> str:
    """Return what one person can have of addresses: one of IPv4, 64 bits of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def _of_account(account: str, browser: str) -> Iterator[tuple[RateLimitItem, Keys]]:
    name = hashlib.sha256(account.encode(errors="replace")).hexdigest()[:32]
    return ((limit, ("account", name, browser or "unknown")) for limit in BY_ACCOUNT)


def _claim(strategy: MovingWindowRateLimiter, limits: list[tuple[RateLimitItem, Keys]]) -> int:
    full = [(limit, keys) for limit, keys in limits if not strategy.test(limit, *keys)]
    if not full:  # two attempts at once: the later finds no room in what both saw empty
        full = [(limit, keys) for limit, keys in limits if not strategy.hit(limit, *keys)]
    if not full:
        return 0
    free_at = max(strategy.get_window_stats(limit, *keys).reset_time for limit, keys in full)
    return max(1, ceil(free_at - time.time()))


@cache
def _shared() -> MovingWindowRateLimiter:
    pool = redis().connection_pool
    return MovingWindowRateLimiter(RedisStorage("redis://", pool, key_prefix="sign-in", wrap_exceptions=True))


@cache
def _own() -> MovingWindowRateLimiter:
    return MovingWindowRateLimiter(MemoryStorage())
