"""A process that listens, for benchmarks of pushes: many sockets as cheaply as they can be read, or one bare channel.

``python -m benchmarks.load.listen PLAN``: says "ready" when everybody listens, takes a line when all was sent, and
writes what came as JSON: [who, from, cursor, Unix time] of every message that moved a cursor.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, TypedDict

MOVED = re.compile(rb'"from":(\d+),"cursor":(\d+)\}$')
PONG, PING, TEXT, CLOSE = 0x8A, 0x89, 0x81, 0x88
AT_ONCE = 50  # handshakes
LAST_WORDS_S = 2.0

Received = tuple[int, int, int, float]
_tasks: list[asyncio.Task[None]] = []  # held, so that none is collected


class Plan(TypedDict, total=False):
    """What to listen to: sockets (path, token) of a server, or ``groups`` of the channel layer."""

    host: str
    port: int
    sockets: list[tuple[str, str]]
    groups: list[str]


class Listener(asyncio.Protocol):
    """One WebSocket, without a library: what is measured is the server."""

    def __init__(self, number: int, plan: Plan, received: list[Received]) -> None:
        self.number, self.plan, self.received = number, plan, received
        self.is_open = asyncio.get_running_loop().create_future()
        self.waiting = b""
        self.is_shaken = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        host = f"{self.plan['host']}:{self.plan['port']}"
        key = base64.b64encode(os.urandom(16)).decode()
        path, token = self.plan["sockets"][self.number]
        head = (
            f"GET {path} HTTP/1.1", f"Host: {host}", f"Origin: http://{host}", f"Authorization: Bearer {token}",
            "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
        )  # fmt: skip
        transport.write("\r\n".join([*head, "", ""]).encode())

    def data_received(self, data: bytes) -> None:
        now = time.time()
        self.waiting += data
        if not self.is_shaken:
            head, found, rest = self.waiting.partition(b"\r\n\r\n")
            if not found:
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self.is_shaken, self.waiting = True, rest
        while (frame := self.next_frame()) is not None:
            self.take(*frame, now)

    def next_frame(self) -> tuple[int, bytes] | None:
        data = self.waiting
        if len(data) < 2:
            return None
        size, at = data[1], 2
        if size == 126:
            size, at = int.from_bytes(data[2:4]), 4
        elif size == 127:
            size, at = int.from_bytes(data[2:10]), 10
        if len(data) < at + size:
            return None
        self.waiting = data[at + size :]
        return data[0], data[at : at + size]

    def take(self, kind: int, payload: bytes, now: float) -> None:
        if kind == PING:
            self.transport.write(bytes((PONG, 0x80 | len(payload), 0, 0, 0, 0)) + payload)
        elif kind == TEXT:
            if not self.is_open.done():
                self.is_open.set_result(None)
            if moved := MOVED.search(payload, max(0, len(payload) - 80)):
                self.received.append((self.number, int(moved[1]), int(moved[2]), now))
        elif kind == CLOSE:
            print(f"socket {self.number} was closed: {int.from_bytes(payload[:2])}", file=sys.stderr)

    def connection_lost(self, reason: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(ConnectionError(f"socket {self.number} was refused"))


async def open_all(plan: Plan, received: list[Received]) -> None:
    """Open every socket; return when each has received a first word."""
    loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with gate:
            _, listener = await loop.create_connection(
                lambda: Listener(number, plan, received), plan["host"], plan["port"]
            )
            await listener.is_open

    await asyncio.gather(*(one(number) for number in range(len(plan["sockets"]))))


async def receive_bare(plan: Plan, received: list[Received]) -> None:
    """Listen to the groups of runs themselves: a hop through the channel layer and nothing else."""
    from dashboard.up.database import set_up_django

    set_up_django()
    from channels.layers import get_channel_layer

    layer = get_channel_layer()

    async def one(number: int, channel: str) -> None:
        while True:
            message = (await layer.receive(channel))["message"]
            if message["type"] == "batch":
                received.append((number, message["from"], message["cursor"], time.time()))

    for number, group in enumerate(plan["groups"]):
        channel = await layer.new_channel()
        await layer.group_add(group, channel)
        _tasks.append(asyncio.create_task(one(number, channel)))


async def main(path: Path) -> None:
    plan: Plan = json.loads(path.read_text())
    received: list[Received] = []
    await (receive_bare(plan, received) if "groups" in plan else open_all(plan, received))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await asyncio.sleep(LAST_WORDS_S)
    path.write_text(json.dumps(received))
    print("done", flush=True)
    os._exit(0)  # a thousand goodbyes are not what is measured


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Path(sys.argv[1])))
