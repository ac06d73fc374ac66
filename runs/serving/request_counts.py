"""Requests that all webs have answered, by class and seconds: each counts in memory, and adds what is new in Valkey."""

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from typing import Any

from redis import RedisError

from runs.serving.transport import redis
from trainyard.contract.seals import PREFIX

KEY, EVERY_S, SUM = f"{PREFIX}:web:requests", 3.0, "microseconds"
CLASSES, BOUNDS = ("2xx", "3xx", "4xx", "5xx"), (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BUCKETS = (*map(str, BOUNDS), "+Inf")


class Counted:
    """ASGI middleware around all others. An answer without a length, such as a stream of events, has no seconds."""

    def __init__(self, app: Any) -> None:
        self._app, self._new = app, Counter[str]()
        self._adding: asyncio.Task[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def counting(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._new[f"{message['status'] // 100}xx"] += 1
                if any(name.lower() == b"content-length" for name, _ in message["headers"]):
                    seconds = time.perf_counter() - began
                    self._new.update({BUCKETS[bisect_left(BOUNDS, seconds)]: 1, SUM: int(seconds * 1e6)})
                if self._adding is None or self._adding.done():
                    self._adding = asyncio.create_task(self._add())
            await send(message)

        began = time.perf_counter()
        await self._app(scope, receive, counting if scope["type"] == "http" else send)

    async def _add(self) -> None:
        while self._new:
            await asyncio.sleep(EVERY_S)
            pipe, new, self._new = redis().pipeline(), self._new, Counter()
            for field, number in new.items():
                pipe.hincrby(KEY, field, number)
            try:
                await asyncio.to_thread(pipe.execute)
            except (RedisError, OSError):
                self._new.update(new)
