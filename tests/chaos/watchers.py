"""A crowd that watches one run over WebSockets, as many browsers do: it reads, or it does not, and it comes back."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin

from tests.up_process import Up

AT_ONCE = 50  # handshakes, as a machine's listen queue lets through
BACK_S = 2.0  # within so long a browser tries again


class Watcher:
    """One socket. ``cursor`` is up to where it has everything."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self.cursor = 0
        self.num_gaps = 0
        self.num_twice = 0
        self.num_connections = 0
        self.reads = asyncio.Event()
        self.reads.set()

    async def watch(self) -> None:
        while True:
            try:
                async with self._crowd.gate:
                    socket = await self._crowd.connect(self.cursor)
                try:
                    self.num_connections += 1
                    while True:
                        await self.reads.wait()
                        self._take(json.loads(await socket.recv()))
                finally:
                    await socket.close()
            except (OSError, WebSocketException, TimeoutError):
                await asyncio.sleep(self._crowd.choice.random() * BACK_S)

    def _take(self, message: dict[str, Any]) -> None:
        if "from" not in message:  # a ping, or a hint
            return
        if message["type"] != "refetch":  # else the page reads everything again over REST
            self.num_gaps += message["from"] > self.cursor
            self.num_twice += message["from"] < self.cursor
        self.cursor = message["cursor"]


class Crowd:
    """``size`` watchers of one run. Call ``come``, and ``go`` at the end."""

    def __init__(self, up: Up, run: str, size: int, choice: random.Random) -> None:
        self._up = up
        self._url = f"{up.url.replace('http', 'ws', 1)}/ws/runs/{run}/"
        self.choice = choice
        self.gate = asyncio.Semaphore(AT_ONCE)
        self.watchers = [Watcher(self) for _ in range(size)]
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, since: int) -> Any:
        parts = urlsplit(self._up.url)
        return await connect(
            f"{self._url}?since={since}",
            additional_headers={"Authorization": f"Bearer {self._up.token}"},
            origin=Origin(f"{parts.scheme}://{parts.netloc}"),
            max_queue=4,
            ping_interval=None,
            open_timeout=30,
        )

    def come(self) -> None:
        self._tasks = [asyncio.create_task(one.watch()) for one in self.watchers]

    async def wait_until(self, condition: Any, what: str, patience_s: float) -> float:
        """Return how many seconds it took."""
        began = asyncio.get_running_loop().time()
        while not condition():
            assert asyncio.get_running_loop().time() - began < patience_s, f"not within {patience_s:g} s: {what}"
            await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time() - began

    async def go(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
