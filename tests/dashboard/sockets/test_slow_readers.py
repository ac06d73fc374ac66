"""Clients that do not read, over real sockets of the real server: what they cost is bounded, and they are let go."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from channels.db import database_sync_to_async

from dashboard.asgi import application
from dashboard.sockets import admission as door
from dashboard.sockets import consumers, feeds
from dashboard.sockets.consumers import RunFeed, RunWatch
from dashboard.sockets.feeds import feed_of
from runs import actions
from runs.ingest.commit import Source, commit
from runs.ingest.push import push_now
from runs.ingest.validation.records import incoming
from runs.models import Run
from runs.serving.broadcast import run_group
from tests.cast import Cast
from tests.spools import Spool

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__"), pytest.mark.usefixtures("valkey")]

SMALL = 8 * 1024  # of the buffers between us and the server, so that a reader who stops is noticed soon
MANY = 400_000  # characters in one batch


@dataclass
class Reader:
    """A WebSocket that reads when it is told to."""

    socket: socket.socket
    waiting: bytes = b""

    async def read(self, count: int) -> bytes:
        loop = asyncio.get_running_loop()
        while len(self.waiting) < count:
            async with asyncio.timeout(20):
                some = await loop.sock_recv(self.socket, 1 << 16)
            if not some:
                raise ConnectionResetError("the server hung up")
            self.waiting += some
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        return found

    async def frame(self) -> tuple[int, bytes]:
        """Return the kind and the content of the next frame."""
        kind, size = await self.read(2)
        if size >= 126:
            size = int.from_bytes(await self.read(2 if size == 126 else 8))
        return kind & 0x0F, await self.read(size)

    async def message(self) -> dict[str, Any]:
        """Return the next message that is not a ping."""
        while True:
            kind, content = await self.frame()
            assert kind == 1, (kind, content)
            message: dict[str, Any] = json.loads(content)
            if message["type"] != "ping":
                return message


@dataclass
class Site:
    port: int
    run: Run
    secret: str
    spool: Spool

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Reader]:
        """A socket that has heard its first ping."""
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
            one.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(one, ("127.0.0.1", self.port))
            host = f"127.0.0.1:{self.port}"
            head = (
                f"GET /ws/runs/{self.run.pk}/ HTTP/1.1", f"Host: {host}", f"Origin: http://{host}",
                f"Authorization: Bearer {self.secret}", "Upgrade: websocket", "Connection: Upgrade",
                "Sec-WebSocket-Key: dHJhaW55YXJkLTE2Ynl0ZQ==", "Sec-WebSocket-Version: 13", "", "",
            )  # fmt: skip
            await loop.sock_sendall(one, "\r\n".join(head).encode())
            reader = Reader(one)
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += await reader.read(1)
            assert answer.startswith(b"HTTP/1.1 101"), answer
            assert json.loads((await reader.frame())[1])["type"] == "ping"
            yield reader

    @property
    def watches(self) -> list[RunWatch]:
        return [one for one in feed_of(RunFeed, run_group(self.run.pk)).members if isinstance(one, RunWatch)]

    async def log(self) -> None:
        """Commit and push a large batch, and wait until it is on its way to everybody."""
        frame = self.spool.logs([(1.0, "x" * 1_000)] * (MANY // 1_000))
        committed = await database_sync_to_async(self.store)(frame)
        push_now(committed)
        await wait_until(lambda: all(watch.outbox.cursor >= committed.cursor for watch in self.watches))

    def store(self, frame: bytes) -> Any:
        return commit(self.run.pk, fence=1, source=Source("node1", "node-a"), batch=incoming(frame))


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "PING_EVERY_S", 0.1)
    monkeypatch.setattr(door, "EVERY_S", 0.1)
    monkeypatch.setattr(consumers, "EVERY_S", 0.001)


@pytest.fixture
async def site(cast: Cast, make_run: Callable[..., Run]) -> AsyncIterator[Site]:
    run = await database_sync_to_async(make_run)()
    _, secret = await database_sync_to_async(actions.create_token)(actor=cast.viewer, name="slow", expires_at=None)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
    config = uvicorn.Config(
        application, loop="asyncio", ws="websockets-sansio", ws_per_message_deflate=False, lifespan="off",
        log_level="error",
    )  # fmt: skip
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    yield Site(listener.getsockname()[1], run, secret, Spool())
    server.should_exit = server.force_exit = True
    await serving


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_who_reads_slowly_gets_a_refetch_and_the_others_everything(site: Site) -> None:
    async with site.reader() as slow, site.reader() as quick:
        num_batches = 2 * feeds.MAX_CHARS // MANY
        for number in range(num_batches):
            await site.log()
            message = await quick.message()
            assert (message["type"], message["from"], message["cursor"]) == ("logs", number, number + 1)
        assert all(watch.outbox._num_chars <= feeds.MAX_CHARS for watch in site.watches)
        cursor, types = 0, []
        while cursor < num_batches:
            message = await slow.message()
            assert message["from"] == cursor
            cursor = message["cursor"]
            types.append(message["type"])
        assert types.count("refetch") == 1 and types[-1] == "refetch"
        await site.log()
        assert (await slow.message())["type"] == "logs"  # it is back among the others


async def test_who_does_not_read_for_long_is_told_to_come_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SLOWEST_SEND_S", 0.2)
    monkeypatch.setattr(consumers, "CLOSING_S", 20.0)
    async with site.reader() as slow:
        [watch] = site.watches
        for _ in range(3):
            await site.log()
        await wait_until(lambda: watch.ending is not None)
        while (frame := await slow.frame())[0] == 1:
            pass
        assert (frame[0], int.from_bytes(frame[1][:2])) == (8, consumers.TOO_SLOW)
        await wait_until(lambda: not site.watches)


async def test_who_reads_nothing_at_all_is_hung_up_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "SLOWEST_SEND_S", 0.2)
    monkeypatch.setattr(consumers, "CLOSING_S", 0.2)
    async with site.reader() as slow:
        [watch] = site.watches
        for _ in range(3):
            await site.log()
        await wait_until(lambda: watch.joined is not None and watch not in watch.joined.members)
        with pytest.raises(ConnectionResetError):
            while True:
                await slow.frame()


async def test_a_large_frame_of_a_client_ends_its_socket_and_no_other(site: Site) -> None:
    async with site.reader() as loud, site.reader() as quick:
        loop = asyncio.get_running_loop()
        size = 100 * 2**20  # it is refused by its head; no more than that is sent
        await loop.sock_sendall(loud.socket, bytes((0x81, 0xFF)) + size.to_bytes(8) + bytes(4))
        with pytest.raises((AssertionError, ConnectionError)):
            while True:
                await loud.message()
        await site.log()
        assert (await quick.message())["type"] == "logs"
