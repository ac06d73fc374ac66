"""Apps of runs through the proxy: tickets, cookies, hosts, and the end of a right. The node is played here."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.test import Client, override_settings

from dashboard.proxy import application
from dashboard.proxy.application import AppProxy
from dashboard.proxy.tunnel import TunnelClosed
from dashboard.sockets import admission as door
from dashboard.sockets import session_socket
from runs.models import Cluster, Membership, Node, Run, User
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.dashboard.sockets.test_session_socket import PlayedNode
from trainyard.contract.base import encode
from trainyard.contract.sessions import FrameKind, SessionEnd

pytestmark = [pytest.mark.django_db(transaction=True, databases="__all__"), pytest.mark.usefixtures("valkey")]

WAIT_S = 10.0
Headers = dict[str, str]


@pytest.fixture(autouse=True)
def settings_of_apps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(door, "EVERY_S", 0.1)
    monkeypatch.setattr(session_socket, "LAST_S", 0.1)
    with override_settings(PROXY_ORIGIN="http://*.localhost:8001"):
        yield


@pytest.fixture
def run(cast: Cast) -> Run:
    Cluster.objects.update(interactive=True)
    made = make_run(cast, status=Status.RUNNING)
    make_attempt(made, [make_node(cast.cluster, "node-a")], ranks=1, phase=Phase.RUNNING)
    return made


@pytest.fixture
async def no_tunnel_left() -> AsyncIterator[None]:
    yield
    for tunnel in application.tunnels()._open.values():
        tunnel.finish(TunnelClosed(502, "The test is over."))
    await asyncio.gather(*session_socket.concluding)


def scope_of(kind: str, host: str, path: str, headers: Headers, method: str = "GET") -> dict[str, Any]:
    given = {"host": host, **headers}
    return {
        "type": kind,
        "method": method,
        "path": path.partition("?")[0],
        "raw_path": path.partition("?")[0].encode(),
        "query_string": path.partition("?")[2].encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("10.0.0.7", 1),
        "subprotocols": ["v1.kernel"] if kind == "websocket" else [],
    }


async def answer_of(asked: ApplicationCommunicator) -> tuple[int, Headers, bytes]:
    start = await asked.receive_output(WAIT_S)
    body = b""
    while True:
        message = await asked.receive_output(WAIT_S)
        body += message["body"]
        if not message.get("more_body"):
            headers = {name.decode(): value.decode() for name, value in start["headers"]}
            return start["status"], headers, body


async def sent(host: str, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> ApplicationCommunicator:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = ApplicationCommunicator(AppProxy(), scope_of("http", host, path, named, method))
    await asked.send_input({"type": "http.request", "body": body})
    return asked


async def get(host: str, path: str, **headers: str) -> tuple[int, Headers, bytes]:
    asked = await sent(host, path, **headers)
    found = await answer_of(asked)
    await asked.wait(WAIT_S)
    return found


def ticket(cast: Cast, run: Run, port: int = 6006) -> tuple[str, str, Client]:
    """Open the app from the run's page, as a mate: host, path with the ticket, and the browser."""
    client = Client()
    client.force_login(cast.mate)
    answer = client.post(f"/runs/{run.pk}/apps/", {"rank": "0", "port": str(port)})
    assert answer.status_code == 200
    found = re.search(r'href="http://([^/"]+)([^"]+)"', answer.content.decode())
    assert found is not None
    return found[1], found[2], client


async def entered(cast: Cast, run: Run) -> tuple[str, str, Client]:
    """Return host, cookie and browser of somebody who has opened the app."""
    host, path, client = await database_sync_to_async(ticket)(cast, run)
    status, headers, _ = await get(host, path)
    assert (status, headers["location"]) == (303, "/")
    assert headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Lax")
    return host, headers["set-cookie"].partition(";")[0], client


async def node_of(run: Run) -> PlayedNode:
    """Play the node of the session that has just begun."""
    async with asyncio.timeout(WAIT_S):
        while (event := await run.events.filter(code="session-began").afirst()) is None:
            await asyncio.sleep(0.02)
    node = PlayedNode(await Node.objects.aget(name="node-a"), event.data["session"])
    await node.send(FrameKind.BEGUN)
    return node


async def received_by(node: PlayedNode, until: bytes) -> tuple[bytes, bytes]:
    """Return the number of a new connection, and what comes over it."""
    opened = await node.receive()
    assert opened.kind == FrameKind.OPEN
    data = b""
    while until not in data:
        frame = await node.receive()
        if frame.kind == FrameKind.DATA:
            data += frame.payload[4:]
    return opened.payload, data


async def test_a_ticket_opens_one_app_once(cast: Cast, run: Run, no_tunnel_left: None) -> None:
    host, path, _ = await database_sync_to_async(ticket)(cast, run)
    assert host == f"{run.pk}-0-6006.localhost:8001"
    other = host.replace("6006", "6007")
    assert (await get(other, path))[0] == 401
    assert (await get(host, path))[0] == 401, "it was used at another host"
    host, cookie, _ = await entered(cast, run)
    assert (await get(other, "/", cookie=cookie))[0] == 401, "another port of the run"
    assert (await get(f"other2-0-6006.{host.partition('.')[2]}", "/", cookie=cookie))[0] == 401, "another run"
    assert (await get(host, "/"))[0] == 401
    assert (await get("127.0.0.1:8001", "/", cookie=cookie))[0] == 404


async def test_a_request_and_its_answer_pass(cast: Cast, run: Run, no_tunnel_left: None) -> None:
    host, cookie, client = await entered(cast, run)
    session = f"trainyard-session-8000={client.session.session_key}"
    headers = {"cookie": f"{session}; {cookie}; theirs=1", "origin": f"http://{host}", "content_length": "5"}
    asked = await sent(host, "/api/x%20y?q=1", "PUT", b"hello", **headers)
    node = await node_of(run)
    number, request = await received_by(node, b"hello")
    assert request.startswith(b"PUT /api/x%20y?q=1 HTTP/1.1\r\n")
    assert b"host: 127.0.0.1:6006\r\n" in request.lower()
    assert b"cookie: theirs=1\r\n" in request
    assert str(client.session.session_key).encode() not in request
    answer = b"HTTP/1.1 201 Created\r\nSet-Cookie: trainyard-app=evil\r\nTransfer-Encoding: chunked\r\n\r\n"
    await node.send(FrameKind.DATA, number + answer + b"3\r\nabc\r\n0\r\n\r\n")
    status, passed, body = await answer_of(asked)
    assert (status, body) == (201, b"abc")
    assert "set-cookie" not in passed
    assert passed["content-security-policy"] == "frame-ancestors 'self'"
    assert (await node.receive()).kind == FrameKind.CLOSE
    await asked.wait(WAIT_S)
    await node.close()


@pytest.mark.parametrize("length", ["\xb2", "-1", "9" * 5000])
async def test_a_length_that_is_none_is_not_passed_on(cast: Cast, run: Run, length: str, no_tunnel_left: None) -> None:
    host, cookie, _ = await entered(cast, run)
    headers = {"cookie": cookie, "origin": f"http://{host}", "content-length": length}
    asked = ApplicationCommunicator(AppProxy(), scope_of("http", host, "/", headers))
    assert (await answer_of(asked))[0] == 413


@pytest.mark.parametrize("path", [b"/\xff", b"/a\r\nx: y", b"/a b"])
async def test_an_address_that_is_none_is_not_passed_on(
    cast: Cast, run: Run, path: bytes, no_tunnel_left: None
) -> None:
    host, cookie, _ = await entered(cast, run)
    headers = {"cookie": cookie, "origin": f"http://{host}"}
    asked = ApplicationCommunicator(AppProxy(), scope_of("http", host, "/", headers) | {"raw_path": path})
    assert (await answer_of(asked))[0] == 400
    browser = ApplicationCommunicator(AppProxy(), scope_of("websocket", host, "/", headers) | {"raw_path": path})
    await browser.send_input({"type": "websocket.connect"})
    assert (await browser.receive_output(WAIT_S))["type"] == "websocket.close"
    await browser.wait(WAIT_S)


async def test_a_handshake_that_cannot_be_passed_on_is_closed(cast: Cast, run: Run, no_tunnel_left: None) -> None:
    host, cookie, _ = await entered(cast, run)
    headers = {"cookie": cookie, "origin": f"http://{host}", "accept": "\0"}
    browser = ApplicationCommunicator(AppProxy(), scope_of("websocket", host, "/", headers))
    await browser.send_input({"type": "websocket.connect"})
    node = await node_of(run)
    assert (await browser.receive_output(WAIT_S))["type"] == "websocket.close"
    await browser.wait(WAIT_S)
    await node.close()


async def test_whoever_loses_the_role_is_cut_off(cast: Cast, run: Run, no_tunnel_left: None) -> None:
    host, cookie, _ = await entered(cast, run)
    headers = {"cookie": cookie, "origin": f"http://{host}"}
    foreign = ApplicationCommunicator(
        AppProxy(), scope_of("websocket", host, "/ws", headers | {"origin": "http://127.0.0.1:8000"})
    )
    await foreign.send_input({"type": "websocket.connect"})
    assert (await foreign.receive_output(WAIT_S))["type"] == "websocket.close", "a page of the dashboard"
    browser = ApplicationCommunicator(AppProxy(), scope_of("websocket", host, "/ws?x=1", headers))
    await browser.send_input({"type": "websocket.connect"})
    node = await node_of(run)
    number, request = await received_by(node, b"\r\n\r\n")
    assert request.startswith(b"GET /ws?x=1 HTTP/1.1\r\n")
    assert b"Origin: http://127.0.0.1:6006" in request.replace(b"origin:", b"Origin:")
    await node.send(FrameKind.DATA, number + handshake_of(request) + b"\x81\x02hi")
    assert await browser.receive_output(WAIT_S) == {"type": "websocket.accept", "subprotocol": "v1.kernel"}
    assert await browser.receive_output(WAIT_S) == {"type": "websocket.send", "text": "hi"}
    await browser.send_input({"type": "websocket.receive", "bytes": b"\x00\x01"})
    assert (await node.receive()).kind == FrameKind.DATA
    await Membership.objects.filter(user=cast.mate).adelete()
    closed = await browser.receive_output(WAIT_S)
    assert (closed["type"], closed["code"]) == ("websocket.close", 4403)
    status, _, body = await get(host, "/", cookie=cookie)
    assert (status, b"no run" in body) == (403, True), body
    await node.close()


async def test_what_does_not_listen_is_named(cast: Cast, run: Run, no_tunnel_left: None) -> None:
    host, cookie, _ = await entered(cast, run)
    asked = await sent(host, "/", cookie=cookie, accept="text/html")
    node = await node_of(run)
    end = SessionEnd(code="refused", sentence="Nothing listens at port 6006 of 127.0.0.1 on this node.")
    await node.send(FrameKind.ENDED, encode(end).encode())
    status, headers, body = await answer_of(asked)
    assert (status, headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert b"Nothing listens at port 6006" in body
    await asked.wait(WAIT_S)
    await node.close()


def test_an_app_that_cannot_be_gets_no_ticket(cast: Cast, run: Run) -> None:
    def as_user(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    form = {"rank": "0", "port": "6006"}
    assert as_user(cast.mate).post(f"/runs/{run.pk}/apps/", {"rank": "0", "port": "x"}).status_code == 422
    assert as_user(cast.mate).post(f"/runs/{run.pk}/apps/", {"rank": "7", "port": "1"}).status_code == 409
    with override_settings(PROXY_ORIGIN=""):
        answer = as_user(cast.mate).post(f"/runs/{run.pk}/apps/", form)
    assert (answer.status_code, "TRAINYARD_PROXY_ORIGIN" in answer.content.decode()) == (409, True)


def handshake_of(request: bytes) -> bytes:
    found = re.search(rb"sec-websocket-key: (\S+)", request, re.IGNORECASE)
    assert found is not None
    digest = hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    lines = [
        b"HTTP/1.1 101 Switching Protocols",
        b"Upgrade: websocket",
        b"Connection: Upgrade",
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest),
        b"Sec-WebSocket-Protocol: v1.kernel",
        b"",
        b"",
    ]
    return b"\r\n".join(lines)
