"""A web that stops: its sockets end one after the other, and those that are left are served meanwhile."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from dashboard.http.serving import OPTIONS, Server

NUM = 20


async def echo(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


async def has_ended(one: ClientConnection) -> bool:
    """Say a word to the server, and return whether it has ended the socket, as a service that starts again."""
    try:
        await one.send("here")
        assert await one.recv() == "here"
    except ConnectionClosed as error:
        assert error.rcvd is not None and error.rcvd.code == 1012
        return True
    return False


async def stopped() -> list[int]:
    """Return how many of the sockets had ended, at each look, from the first end to the last."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = Server(uvicorn.Config(echo, **OPTIONS | {"http": "httptools", "loop": "asyncio"}), listener)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        sockets = [await connect(f"ws://127.0.0.1:{port}/") for _ in range(NUM)]
        server.should_exit = True
        counts = [0]
        while counts[-1] < NUM:
            counts.append(sum([await has_ended(one) for one in sockets]))
        await serving
    return counts


def test_sockets_of_a_web_that_stops_end_in_turn_and_are_served_until_then() -> None:
    counts = asyncio.run(asyncio.wait_for(stopped(), 60))
    assert counts == sorted(counts)
    assert any(0 < count < NUM for count in counts), counts
