"""A connection whose request does not come is closed: uvicorn itself, over real sockets, with our protocol."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from dashboard.http import connections, serving
from dashboard.http.connections import HEAD_BYTES
from dashboard.up.programs import web

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await asyncio.sleep(0.5 if scope["path"] == "/slow" else 0)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a server that gives a head 0.3 s, and an idle connection a second."""
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    config = uvicorn.Config(
        hello, port=0, http="dashboard.http.connections:LimitedConnection", log_level="critical", lifespan="off",
        timeout_keep_alive=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


async def closed_after(reader: asyncio.StreamReader) -> bytes:
    """Return what came until the server closed; fail where it does not."""
    try:
        return await asyncio.wait_for(reader.read(), 3)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("sent", [b"", b"G", HEAD, b"\r\n"])
async def test_a_head_that_does_not_end_is_not_waited_for(port: int, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    assert await closed_after(reader) == b""
    writer.close()


async def test_a_head_that_drips_is_not_waited_for_either(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    closing = asyncio.create_task(closed_after(reader))
    writer.write(HEAD)
    for _ in range(30):
        writer.write(b"x: y\r\n")
        await asyncio.sleep(0.05)
    assert closing.done() and closing.result() == b""
    writer.close()


async def test_a_second_request_has_its_own_time(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(3):
        writer.write(HEAD + b"\r\n")
        assert b"200 OK" in await reader.readuntil(b"ok")
        await asyncio.sleep(0.4)  # idle, which is uvicorn's to end
    writer.write(b"\r\n")  # no longer idle for uvicorn, and no request either
    assert await closed_after(reader) == b""
    writer.close()


async def test_an_answer_may_take_longer_than_a_head(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD.replace(b"/ ", b"/slow ") + b"\r\n")
    assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b"ok"), 3)
    writer.close()


async def test_a_head_without_an_end_is_not_kept_in_memory(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 60)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD + b"x: " + b"y" * 2 * HEAD_BYTES)
    assert await closed_after(reader) == b""
    writer.close()


def test_the_site_is_served_by_it() -> None:
    with socket.socket() as listener:
        assert "dashboard.http.serving" in web(listener).command
    for options in (serving.OPTIONS, serving.APPS):
        assert (
            uvicorn.Config("dashboard.asgi:application", **options).http
            == "dashboard.http.connections:LimitedConnection"
        )


async def test_an_answer_that_nobody_reads_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READER_S", 0.3)
    ended = asyncio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(200):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        ended.set()

    config = uvicorn.Config(
        endless, port=0, http="dashboard.http.connections:LimitedConnection", log_level="critical", lifespan="off"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    with socket.create_connection(("127.0.0.1", server.servers[0].sockets[0].getsockname()[1])) as client:
        client.sendall(HEAD + b"\r\n")
        await asyncio.wait_for(ended.wait(), 10)  # what is sent after the connection's end is dropped
    server.should_exit = True
    await serving
