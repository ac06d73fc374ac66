"""The two sockets. Each admits (who, which run), forwards what is pushed, and says every few seconds where the store
stands. What one may see is decided in runs.access; what a message holds, in runs.metrics.delta."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError
from django.urls import path

from dashboard.visitors import visitor_of
from runs.access import NotFound, get_run
from runs.broadcast import OVERVIEW_GROUP, run_group
from runs.metrics import read
from runs.metrics.delta import from_wire
from runs.models import User

log = structlog.get_logger(__name__)

SLOWEST_SEND_S = 10.0  # who cannot read for so long is let go, and comes back with a cursor
MAX_FRAMES = 20  # a client has nothing to say; so many frames between two pings are a flood
UNAVAILABLE, UNKNOWN_VISITOR, NOT_FOUND, FLOOD, TOO_SLOW = 1011, 4401, 4404, 4408, 4409


class Watch(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """What both sockets do. Below are ``admit`` (raises NotFound), ``start``, ``ping`` and ``push``."""

    ping_every_s = 4.0  # a role that is revoked closes the socket within five seconds
    group = OVERVIEW_GROUP
    beat: asyncio.Task[None] | None = None
    num_frames = 0

    async def connect(self) -> None:
        self.order = asyncio.Lock()  # pings and pushes speak one after the other
        await self.accept()  # a refusal before this has no code that a page could read
        if await self.is_admitted():
            # Listen first, then look: what is committed in between comes twice and is dropped, never lost.
            await self.channel_layer.group_add(self.group, self.channel_name)
            await self.start()
            self.beat = asyncio.create_task(self.keep_beating())

    async def disconnect(self, code: int) -> None:
        if self.beat is not None:
            self.beat.cancel()
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self.num_frames += 1
        if self.num_frames > MAX_FRAMES:
            await self.close(code=FLOOD)

    async def is_admitted(self) -> bool:
        try:
            visitor = await visitor_of(self.scope)
            if visitor is None:
                await self.close(code=UNKNOWN_VISITOR)
                return False
            await database_sync_to_async(self.admit)(visitor)
        except NotFound:
            await self.close(code=NOT_FOUND)
            return False
        return True

    async def keep_beating(self) -> None:
        try:
            while True:
                async with self.order:
                    await self.ping()
                await asyncio.sleep(self.ping_every_s)
                self.num_frames = 0
                if not await self.is_admitted():
                    return
        except DatabaseError as error:  # nobody can say who may see what: the page reconnects until somebody can
            log.warning("socket.database", error=str(error))
            await self.close(code=UNAVAILABLE)
        except Exception:  # without its beat a socket would stay open for whoever lost their role
            log.exception("socket.failed")
            await self.close(code=UNAVAILABLE)

    async def say(self, *messages: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(SLOWEST_SEND_S):
                for message in messages:
                    await self.send(text_data=json.dumps(message, separators=(",", ":"), allow_nan=False))
        except TimeoutError:
            await self.close(code=TOO_SLOW)

    async def start(self) -> None:
        """Say what must be said before the first ping."""


class RunWatch(Watch):
    """``/ws/runs/<id>/?since=<cursor>``: points, log lines, and hints that the run changed. No hole stays: whatever
    the channel layer loses is read from the store at the next message or ping."""

    cursor = 0

    async def connect(self) -> None:
        self.run_id = self.scope["url_route"]["kwargs"]["run_id"]
        self.group = run_group(self.run_id)
        await super().connect()

    def admit(self, visitor: User) -> None:
        get_run(visitor, self.run_id)

    async def start(self) -> None:
        since = parse_qs(self.scope["query_string"].decode("latin1")).get("since", [""])[0]
        is_cursor = since.isascii() and since.isdigit() and len(since) < 19
        self.cursor = int(since) if is_cursor else await database_sync_to_async(read.cursor_of)(self.run_id)
        await self.catch_up()

    async def ping(self) -> None:
        await self.catch_up()
        await self.say({"type": "ping", "cursor": self.cursor})

    async def push(self, event: dict[str, Any]) -> None:
        message = event["message"]
        async with self.order:
            if message["type"] != "batch":
                await self.say(message)
            elif message["from"] == self.cursor:
                self.cursor = message["cursor"]
                await self.say(*from_wire(message).messages())
            elif message["cursor"] > self.cursor:
                await self.catch_up()

    async def catch_up(self) -> None:
        change = await database_sync_to_async(read.delta_since)(self.run_id, self.cursor)
        if change.refetch or change.cursor > self.cursor:
            self.cursor = change.cursor
            await self.say(*change.messages())


class OverviewWatch(Watch):
    """``/ws/overview/``: which of the runs that one may see changed, and that nodes did."""

    visitor: User

    async def connect(self) -> None:
        self.seen: dict[str, bool] = {}
        await super().connect()

    def admit(self, visitor: User) -> None:
        self.visitor = visitor
        self.seen.clear()  # roles may have changed

    async def ping(self) -> None:
        await self.say({"type": "ping", "cursor": 0})

    async def push(self, event: dict[str, Any]) -> None:
        message = event["message"]
        if "run" not in message or await database_sync_to_async(self.can_see)(message["run"]):
            async with self.order:
                await self.say(message)

    def can_see(self, run_id: str) -> bool:
        if run_id not in self.seen:
            try:
                get_run(self.visitor, run_id)
                self.seen[run_id] = True
            except NotFound:
                self.seen[run_id] = False
        return self.seen[run_id]


websocket_urlpatterns = [
    path("ws/runs/<slug:run_id>/", RunWatch.as_asgi()),
    path("ws/overview/", OverviewWatch.as_asgi()),
]
