"""What a browser may send to an app through the proxy: it is passed on or refused with a status, and the next request
passes. The node is played here, and answers whatever comes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.utils import timezone
from hypothesis import strategies as st

from dashboard.proxy import application
from dashboard.proxy.application import AppProxy
from dashboard.proxy.tunnel import TunnelClosed
from dashboard.sockets import session_socket
from runs.models import Node, Run
from tests.cast import Cast
from tests.dashboard.proxy.test_application import (
    WAIT_S,
    answer_of,
    entered,
    handshake_of,
    node_of,
    run,
    scope_of,
    sent,
    settings_of_apps,
)
from tests.dashboard.sockets.test_session_socket import PlayedNode
from tests.fuzzing import fuzz, mutated
from trainyard.contract.sessions import FrameKind

__all__ = ["run", "settings_of_apps"]
pytestmark = [
    pytest.mark.django_db(transaction=True, databases="__all__"),
    pytest.mark.usefixtures("valkey"),
    pytest.mark.timeout(7200),
]
NAMES = [
    b"accept", b"authorization", b"connection", b"content-length", b"cookie", b"expect", b"host", b"origin", b"referer",
    b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"sec-websocket-protocol", b"sec-websocket-extensions",
    b"te", b"transfer-encoding", b"upgrade", b"x-forwarded-host", b"x-y",
]  # fmt: skip
METHODS = ["GET", "GET", "POST", "HEAD", "OPTIONS", "PUT", "TRACE", "CONNECT", "G\x00T", "get", ""]
PATHS = [
    b"/",
    b"/a%20b?q=%00",
    b"/trainyard-app/enter?ticket=x",
    b"",
    b"*",
    b"//x",
    b"/\xff",
    b"/a\r\nx: y",
    b"/" + b"a" * 9000,
]
values = st.binary(max_size=30) | st.sampled_from(
    [b"chunked", b"upgrade, x-y", b"-1", b"9" * 40, b"same-origin", b"\xb2"]
)
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 204 No\r\nSet-Cookie: a=b\r\nLocation: /\r\n\r\n",
]


class Answering:
    """A node whose app answers each request with the ``answer`` of the moment, and each handshake rightly."""

    def __init__(self, node: PlayedNode) -> None:
        self._node = node
        self._one_at_a_time = asyncio.Lock()
        self.answer = ANSWERS[0]

    async def close(self) -> None:
        await self._node.close()

    async def _send(self, kind: FrameKind, payload: bytes = b"") -> None:
        async with self._one_at_a_time:
            await self._node.send(kind, payload)

    async def stay(self) -> None:
        while True:
            await self._send(FrameKind.ALIVE)
            await asyncio.sleep(1)

    async def go_on(self) -> None:
        received, total = dict[bytes, bytes](), 0
        while True:
            try:
                frame = await self._node.receive()
            except TimeoutError:  # nobody asked anything meanwhile
                continue
            number = frame.payload[:4]
            if frame.kind == FrameKind.DATA:
                received.setdefault(number, b"")
                total += len(frame.payload) - 4
                await self._send(FrameKind.CREDIT, total.to_bytes(8))
            if frame.kind == FrameKind.CLOSE:
                received.pop(number, None)
            elif frame.kind == FrameKind.DATA and b"\r\n\r\n" not in received[number]:
                received[number] += frame.payload[4:]
                if b"\r\n\r\n" in received[number]:
                    with contextlib.suppress(AssertionError):
                        await self._send(FrameKind.DATA, number + handshake_of(received[number]))
                    await self._send(FrameKind.DATA, number + self.answer)
                    await self._send(FrameKind.CLOSE, number)


def test_no_request_to_an_app_makes_the_proxy_fail(cast: Cast, run: Run) -> None:
    headers = st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=3)
    paths, answers = st.sampled_from(PATHS) | mutated(*PATHS), st.sampled_from(ANSWERS) | mutated(*ANSWERS)
    messages = st.lists(st.text(max_size=20) | st.binary(max_size=200), max_size=4)
    examples = st.tuples(
        st.sampled_from(["http", "websocket"]), st.sampled_from(METHODS), paths, headers, messages, answers
    )

    async def ask(kind: str, method: str, path: bytes, more: Any, parts: list[Any], answer: bytes) -> None:
        node.answer = answer
        scope = scope_of(kind, host, "/", {"cookie": cookie, "origin": f"http://{host}"}, method)
        scope |= {"raw_path": path.partition(b"?")[0], "query_string": path.partition(b"?")[2]}
        scope["headers"] += [(name, value) for name, value in more]
        asked = ApplicationCommunicator(AppProxy(), scope)
        if kind == "http":
            body = b"".join(one.encode() if isinstance(one, str) else one for one in parts)
            await asked.send_input({"type": "http.request", "body": body})
            start = await asked.receive_output(WAIT_S)
            assert 100 <= start["status"] < 600 and start["status"] != 500, start
            await asked.send_input({"type": "http.disconnect"})
        else:
            await asked.send_input({"type": "websocket.connect"})
            for one in parts:
                await asked.send_input({"type": "websocket.receive", "text" if isinstance(one, str) else "bytes": one})
            assert (await asked.receive_output(WAIT_S))["type"].startswith("websocket.")
            await asked.send_input({"type": "websocket.disconnect", "code": 1000})
        await asked.wait(WAIT_S)

    async def set_up() -> tuple[str, str, Answering, list[asyncio.Task[None]]]:
        host, cookie, _ = await entered(cast, run)
        first = await sent(host, "/", cookie=cookie)
        one = Answering(await node_of(run))
        tasks = [asyncio.create_task(work) for work in (one.go_on(), one.stay())]
        assert (await answer_of(first))[0] == 200
        return host, cookie, one, tasks

    async def check_good() -> None:
        node.answer = ANSWERS[0]
        assert (await answer_of(await sent(host, "/", cookie=cookie)))[::2] == (200, b"ok"), (
            "a good request does not pass"
        )

    async def tear_down() -> None:
        for task in tasks:
            task.cancel()
        for tunnel in application.tunnels()._open.values():
            tunnel.finish(TunnelClosed(502, "The test is over."))
        await asyncio.gather(*session_socket.concluding, *tasks, return_exceptions=True)
        await node.close()

    Node.objects.update(seen_at=timezone.now() + timedelta(days=1))
    with loop_beside() as do:
        host, cookie, node, tasks = do(set_up())
        fuzz(examples, lambda one: do(ask(*one)), "requests to an app through the proxy")
        do(check_good())
        do(tear_down())


@contextlib.contextmanager
def loop_beside() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """An event loop that goes on between two requests, as that of a server does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
