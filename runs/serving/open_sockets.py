"""How many sockets of pages are open: each web writes its number every few seconds, and an old one does not count."""

import contextlib
import os
import socket
import time

from redis import RedisError

from runs.serving.transport import redis
from trainyard.contract.seals import PREFIX

KEY = f"{PREFIX}:web:sockets"
OLD_S = 15.0


def write(number: int) -> None:
    with contextlib.suppress(RedisError, OSError):
        redis().hset(KEY, f"{socket.gethostname()}:{os.getpid()}", f"{number} {time.time():.0f}")


def total() -> int:
    """Return the number of all webs, and forget those that have ended. 0 where Valkey is away."""
    found: dict[bytes, bytes] = {}
    with contextlib.suppress(RedisError, OSError):
        found = redis().hgetall(KEY)  # type: ignore[assignment]  # the client's types are of both of its kinds
        if old := [web for web, text in found.items() if time.time() - float(text.split()[1]) > OLD_S]:
            redis().hdel(KEY, *old)
            found = {web: text for web, text in found.items() if web not in old}
    return sum(int(text.split()[0]) for text in found.values())
