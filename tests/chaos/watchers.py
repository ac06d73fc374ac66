"""A crowd that watches one run over WebSockets, as many browsers do: it reads, or it does not, and it comes back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from typing import Any
from urllib.parse import urlsplit

from benchmarks.load.listen import CLOSE, MOVED, TEXT, Listener, Plan
from tests.up_process import Up

AT_ONCE = 50  # handshakes, as a machine's listen queue lets through
OPEN_S = 30.0
BACK_S = 2.0  # within so long a browser tries again
REFETCH = b'{"type":"refetch"'


class Connection(Listener):
    """One WebSocket of a watcher. ``is_over`` comes with its end."""

    def __init__(self, watcher: Watcher, plan: Plan) -> None:
        super().__init__(0, plan, [])
        self._watcher = watcher
        self.is_over = asyncio.get_running_loop().create_future()

    def take(self, kind: int, payload: bytes, now: float) -> None:
        if kind == CLOSE:
            self.transport.abort()
        else:
            super().take(kind, payload, now)
        if kind == TEXT:
            self._watcher.take(payload)

    def connection_lost(self, reason: Exception | None) -> None:
        super().connection_lost(reason)
        if not self.is_over.done():
            self.is_over.set_result(None)


class Watcher:
    """One socket after the other. ``cursor`` is up to where it has everything."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._connection: Connection | None = None
        self._reads = True
        self.cursor = 0
        self.num_gaps = 0
        self.num_twice = 0
        self.num_connections = 0

    async def watch(self) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                await self._watch_once()
            await asyncio.sleep(self._crowd.choice.random() * BACK_S)

    async def _watch_once(self) -> None:
        async with self._crowd.gate, asyncio.timeout(OPEN_S):
            self._connection = connection = await self._crowd.connect(self)
            try:
                await connection.is_open
            except BaseException:
                connection.transport.abort()
                raise
        self.num_connections += 1
        try:
            if not self._reads:
                connection.transport.pause_reading()
            await connection.is_over
        finally:
            connection.transport.abort()

    def stop_reading(self) -> None:
        self._reads = False
        if self._connection is not None and not self._connection.transport.is_closing():
            self._connection.transport.pause_reading()

    def read_on(self) -> None:
        self._reads = True
        if self._connection is not None and not self._connection.transport.is_closing():
            self._connection.transport.resume_reading()

    def take(self, payload: bytes) -> None:
        if payload.startswith(REFETCH):  # the page reads everything again over REST
            self.cursor = json.loads(payload)["cursor"]
        elif moved := MOVED.search(payload, max(0, len(payload) - 80)):  # else a ping, or a hint
            start = int(moved[1])
            self.num_gaps += start > self.cursor
            self.num_twice += start < self.cursor
            self.cursor = int(moved[2])


class Crowd:
    """``size`` watchers of one run. Call ``come``, and ``go`` at the end."""

    def __init__(self, up: Up, run: str, size: int, choice: random.Random) -> None:
        self._path, self._token = f"/ws/runs/{run}/", up.token
        parts = urlsplit(up.url)
        assert parts.hostname is not None and parts.port is not None
        self._host, self._port = parts.hostname, parts.port
        self.choice = choice
        self.gate = asyncio.Semaphore(AT_ONCE)
        self.watchers = [Watcher(self) for _ in range(size)]
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, watcher: Watcher) -> Connection:
        path = f"{self._path}?since={watcher.cursor}"
        plan: Plan = {"host": self._host, "port": self._port, "sockets": [(path, self._token)]}
        make = asyncio.get_running_loop().create_connection
        _, connection = await make(lambda: Connection(watcher, plan), self._host, self._port)
        return connection

    def come(self) -> None:
        self._tasks = [asyncio.create_task(one.watch()) for one in self.watchers]

    def num_open(self, number: int) -> int:
        """Return how many have opened at least so many sockets, one after the other."""
        return sum(one.num_connections >= number for one in self.watchers)

    async def wait_until(self, condition: Any, what: str, patience_s: float) -> float:
        """Return how many seconds it took."""
        began = asyncio.get_running_loop().time()
        while not condition():
            took_s = asyncio.get_running_loop().time() - began
            counts = [self.num_open(number) for number in (1, 2, 3)]
            assert took_s < patience_s, f"not within {patience_s:g} s: {what}; opened once, twice, thrice: {counts}"
            await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time() - began

    async def go(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
