"""Requests that all webs have answered, counted around an application of ASGI, in a real Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runs.presenting.exposition import _requests
from runs.serving import request_counts
from runs.serving.request_counts import Counted
from tests.servers import Valkey

pytestmark = pytest.mark.usefixtures("valkey")
LENGTH = (b"Content-Length", b"2")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_counts, "EVERY_S", 0.02)


def answering(status: int, *headers: tuple[bytes, bytes], wait_s: float = 0.0) -> Any:
    async def app(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await asyncio.sleep(wait_s)
        await send({"type": f"{scope['type']}.response.start", "status": status, "headers": headers})
        await send({"type": f"{scope['type']}.response.body", "body": b"ok"})

    return app


async def ask(web: Counted, kind: str = "http") -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await web({"type": kind}, None, send)
    return sent


def shown() -> dict[str, float]:
    samples = (one for family in _requests() for one in family.samples)
    return {" ".join([one.name.removeprefix("trainyard_"), *one.labels.values()]): one.value for one in samples}


async def becomes(name: str, value: float) -> dict[str, float]:
    for _ in range(500):
        found = await asyncio.to_thread(shown)
        if found.get(name) == value:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} is not {value}: {found}")


def test_before_any_request_each_number_is_there_and_0() -> None:
    found = shown()
    assert set(found.values()) == {0} and len(found) == 4 + 9 + 2 and found["requests_total 5xx"] == 0


async def test_answers_are_counted_by_class_and_by_time() -> None:
    for status in (200, 204, 302, 404, 404, 503):
        assert len(await ask(Counted(answering(status, (b"x-other", b"1"), LENGTH)))) == 2
    await ask(Counted(answering(200, LENGTH, wait_s=0.11)))
    found = await becomes("requests_total 2xx", 3)
    found = await becomes("request_seconds_count", 7)
    assert [found[f"requests_total {one}xx"] for one in (3, 4, 5)] == [1, 2, 1]
    assert found["request_seconds_bucket 0.1"] <= 6 and found["request_seconds_bucket +Inf"] == 7
    assert found["request_seconds_sum"] >= 0.11


async def test_two_webs_add_up() -> None:
    one, other = (Counted(answering(200, LENGTH)) for _ in range(2))
    for web in (one, other, one):
        await ask(web)
    await becomes("requests_total 2xx", 3)
    await ask(other)
    await becomes("requests_total 2xx", 4)


async def test_a_stream_without_an_end_is_counted_when_it_begins_and_has_no_seconds() -> None:
    async def endless(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"text/event-stream")]})
        while True:
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
            await asyncio.sleep(0.01)

    stream = asyncio.create_task(ask(Counted(endless)))
    found = await becomes("requests_total 2xx", 1)
    assert not stream.done() and found["request_seconds_count"] == 0
    stream.cancel()


async def test_while_valkey_is_away_requests_are_answered_and_added_later(valkey: Valkey) -> None:
    web = Counted(answering(200, LENGTH))
    await ask(web)
    await becomes("requests_total 2xx", 1)
    valkey.stop()
    for _ in range(3):
        assert len(await ask(web)) == 2
    assert await asyncio.to_thread(shown) == {}, "no counter that says 0"
    await asyncio.sleep(0.1)
    valkey.start()
    found = await becomes("requests_total 2xx", 3)  # an empty one: the tests' keeps nothing
    assert found["request_seconds_count"] == 3 and found["requests_total 5xx"] == 0


async def test_sockets_are_no_requests() -> None:
    web = Counted(answering(200, LENGTH))
    await ask(web, "websocket")
    await ask(web)
    await becomes("requests_total 2xx", 1)
