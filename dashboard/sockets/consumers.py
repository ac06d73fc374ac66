"""The two sockets. Each is admitted (see admission), forwards what its feed sends, and leaves."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError
from django.urls import path

from dashboard.http.credentials import credential_of
from dashboard.sockets.admission import NOT_FOUND, UNAVAILABLE, UNKNOWN_USER, Question, admission
from dashboard.sockets.feeds import Feed, feed_of
from dashboard.sockets.outbox import Outbox
from dashboard.sockets.overview_feed import OverviewFeed
from dashboard.sockets.run_feed import RunFeed
from dashboard.sockets.session_socket import SessionSocket
from runs.access import Sight
from runs.broadcast import OVERVIEW_GROUP, run_group

log = structlog.get_logger(__name__)

SLOWEST_SEND_S = 10.0  # who cannot read for so long is let go, and comes back with a cursor
CLOSING_S = 2.0  # who does not read a close frame either is hung up on
MAX_FRAMES = 20  # a client need not send anything; so many frames in a few seconds are a flood
FLOOD_S = 4.0
FLOOD, TOO_SLOW = 4408, 4409


class Watch(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """What both sockets do. Below are ``feed`` and ``since``."""

    channel_layer_alias = "none"  # one feed listens for all sockets of a run
    run_id: str | None = None
    sight = Sight(frozenset())
    joined: Feed | None = None
    writing: asyncio.Task[None] | None = None
    ending: asyncio.Task[None] | None = None
    sending_since: float | None = None
    num_frames = 0
    counting_since = 0.0

    def feed(self) -> Feed:
        raise NotImplementedError

    def since(self) -> int | None:
        return None

    async def connect(self) -> None:
        await self.accept()  # a refusal before this has no code that a page could read
        self.outbox = Outbox()
        self.question = Question(credential_of(self.scope), self.run_id)
        answer = await self.ask()
        if not isinstance(answer, Sight):
            self.end(answer)
            return
        self.sight = answer
        self.joined = self.feed()
        self.joined.join(self, self.since())
        self.writing = asyncio.create_task(self.write())

    async def ask(self) -> Sight | int:
        try:
            return await admission().admit(self)
        except DatabaseError as error:  # the page reconnects until somebody can say who may see what
            log.warning("socket.database", error=str(error))
        except Exception:  # a socket that nobody admitted is closed, whatever the reason
            log.exception("socket.failed")
        return UNAVAILABLE

    async def disconnect(self, code: int) -> None:
        admission().leave(self)
        if self.joined is not None:
            self.joined.leave(self)
        if self.writing is not None:
            self.writing.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        now = asyncio.get_running_loop().time()
        if now - self.counting_since > FLOOD_S:
            self.num_frames, self.counting_since = 0, now
        self.num_frames += 1
        if self.num_frames > MAX_FRAMES:
            self.end(FLOOD)

    async def write(self) -> None:
        """Send what is in the outbox, as fast as the client reads."""
        loop = asyncio.get_running_loop()
        while True:
            text = await self.outbox.take()
            self.sending_since = loop.time()
            try:
                await self.base_send({"type": "websocket.send", "text": text})
            except OSError:  # it is gone, and disconnect() is on its way
                return
            self.sending_since = None

    def stay(self, sight: Sight) -> None:
        """Admission has checked this socket again; its person sees this now."""
        self.sight = sight
        now = asyncio.get_running_loop().time()
        if self.sending_since is not None and now - self.sending_since > SLOWEST_SEND_S:
            self.end(TOO_SLOW)

    def end(self, code: int) -> None:
        if self.ending is None:
            self.ending = asyncio.create_task(self.say_goodbye(code))

    async def say_goodbye(self, code: int) -> None:
        if self.writing is not None:
            self.writing.cancel()
        try:
            async with asyncio.timeout(CLOSING_S):
                await self.close(code=code)
        except TimeoutError:
            hang_up(self.base_send)
        except OSError:  # it is gone already
            pass


class RunWatch(Watch):
    """``/ws/runs/<id>/?since=<cursor>``: points, log lines, and hints that the run changed."""

    async def connect(self) -> None:
        self.run_id = self.scope["url_route"]["kwargs"]["run_id"]
        await super().connect()

    def feed(self) -> Feed:
        return feed_of(RunFeed, run_group(str(self.run_id)))

    def since(self) -> int | None:
        since = parse_qs(self.scope["query_string"].decode("latin1")).get("since", [""])[0]
        return int(since) if since.isascii() and since.isdigit() and len(since) < 19 else None


class OverviewWatch(Watch):
    """``/ws/overview/``: which of the runs that one may see changed, and that nodes did."""

    def feed(self) -> Feed:
        return feed_of(OverviewFeed, OVERVIEW_GROUP)


async def no_such_socket(scope: Any, receive: Any, send: Any) -> None:
    """Refuse the handshake for a path that no route names: uvicorn answers 403. (A 404 of our own it would answer, and
    log as an error each time.)"""
    await receive()
    await send({"type": "websocket.close", "code": NOT_FOUND})


def hang_up(send: Any) -> None:
    """End a connection without a word. ASGI has none for it: its close frame waits behind what is not read, for ever,
    and so does the server's own close. ``send`` is a method of uvicorn's protocol, which has the transport."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        log.info("socket.hung_up")
        transport.abort()


websocket_urlpatterns = [
    path("ws/runs/<slug:run_id>/", RunWatch.as_asgi()),
    path("ws/runs/<slug:run_id>/session/", SessionSocket.as_asgi()),
    path("ws/overview/", OverviewWatch.as_asgi()),
]

__all__ = ["FLOOD", "NOT_FOUND", "TOO_SLOW", "UNAVAILABLE", "UNKNOWN_USER", "RunWatch", "websocket_urlpatterns"]
