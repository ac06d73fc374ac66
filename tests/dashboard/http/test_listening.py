"""Listening with TLS: what comes without it is answered in words, and a new certificate is shown without a restart."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import uvicorn

from dashboard.http import listening, serving
from dashboard.http.listening import ServerCertificate, TlsListener
from dashboard.http.serving import OPTIONS, Server
from dashboard.tls import folder
from dashboard.up.valkey_gate import REFUSAL, ClientHalf
from tests.servers import Valkey
from trainyard.rest.trust import AUTHORITIES, SERVER

NAMES = ["127.0.0.1", "localhost"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder.begin(tmp_path / "tls", NAMES, datetime.now(UTC))
    return tmp_path / "tls"


def bound() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    return listener


async def hello(scope: Any, receive: Any, send: Any) -> None:
    body = scope["scheme"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def web_port(place: Path) -> AsyncIterator[int]:
    listener = bound()
    config = uvicorn.Config(hello, **{**OPTIONS, "loop": "asyncio"})
    server = Server(config, listener, certificate=ServerCertificate(place / SERVER))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    await serving


async def ask(port: int, context: ssl.SSLContext | None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return answer


def trusting(place: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=place / AUTHORITIES)


async def test_the_site_is_served_with_tls_and_a_plain_request_is_refused_in_words(web_port: int, place: Path) -> None:
    assert (await ask(web_port, trusting(place))).endswith(b"https")
    plain = await ask(web_port, None)
    assert plain.startswith(b"HTTP/1.1 400 ") and b"takes connections with TLS only: open http" in plain
    with pytest.raises(ssl.SSLCertVerificationError):
        await ask(web_port, ssl.create_default_context())


async def test_a_new_certificate_is_shown_to_the_next_connection(web_port: int, place: Path) -> None:
    before = trusting(place)
    await ask(web_port, before)
    folder.rotate(place, [], datetime.now(UTC) + timedelta(seconds=1))
    assert (await ask(web_port, before)).endswith(b"https"), "the old authority leads to the new one"
    folder.finish(place, datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        await ask(web_port, before)
    assert (await ask(web_port, trusting(place))).endswith(b"https")
    (place / SERVER).write_text("nonsense")
    assert (await ask(web_port, trusting(place))).endswith(b"https"), "the one before is better than none"


async def test_who_says_nothing_is_not_waited_for(web_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "FIRST_BYTE_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", web_port)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


@pytest.fixture
async def gate(place: Path, valkey: Valkey) -> AsyncIterator[int]:
    listener = bound()
    port = listener.getsockname()[1]
    served = TlsListener(listener, ServerCertificate(place / SERVER), lambda: ClientHalf(valkey.socket), REFUSAL)
    yield port
    served.close()
    await served.wait_closed()


async def test_valkey_is_reached_with_tls_and_not_without(gate: int, place: Path) -> None:
    def talk() -> list[Any]:
        url = f"rediss://127.0.0.1:{gate}/0?ssl_cert_reqs=required&ssl_ca_certs={place / AUTHORITIES}"
        with redis.Redis.from_url(url, socket_timeout=5) as client:
            client.set("large", b"x" * 1_000_000)
            pipe = client.pipeline(transaction=False)
            for _ in range(20):
                pipe.get("large")
            return [client.ping(), sum(map(len, pipe.execute()))]

    assert await asyncio.to_thread(talk) == [True, 20_000_000]
    reader, writer = await asyncio.open_connection("127.0.0.1", gate)
    writer.write(b"*1\r\n$4\r\nPING\r\n")
    assert await asyncio.wait_for(reader.read(), 5) == REFUSAL
    writer.close()


async def test_a_plain_client_of_valkey_gets_the_words(gate: int) -> None:
    def talk() -> None:
        with redis.Redis(port=gate, socket_timeout=5) as client:
            client.ping()

    with pytest.raises(redis.RedisError, match="TLS only: use a rediss"):
        await asyncio.to_thread(talk)


async def other(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"other"})


async def test_a_second_listener_has_an_application_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "APPS_APPLICATION", other)
    site, apps = bound(), bound()
    server = serving.Server(uvicorn.Config(hello, **{**OPTIONS, "loop": "asyncio"}), site, apps)
    working = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    assert (await ask(site.getsockname()[1], None)).endswith(b"http")
    assert (await ask(apps.getsockname()[1], None)).endswith(b"other")
    server.should_exit = True
    await working
