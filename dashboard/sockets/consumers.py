"""The two sockets. Each is admitted (see admission), forwards what its feed sends, and leaves."""

import asyncio
import contextlib
from typing import Any
from urllib.parse import parse_qs

import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.urls import path

from dashboard.http.credentials import credential_of
from dashboard.sockets import feeds
from dashboard.sockets.admission import NOT_FOUND, AdmissionQuestion, admission
from dashboard.sockets.feeds import Feed, Member, Outbox, feed_of
from dashboard.sockets.session_socket import SessionSocket
from runs.models import Run, Sweep
from runs.records.deltas import delta
from runs.records.deltas.delta import Delta, EncodedDelta, encode, from_wire, message_text
from runs.records.metrics import progress
from runs.rights.access import Permission, Sight, projects_of
from runs.rights.access.operations import Rule, lists, thing
from runs.serving.broadcast import OVERVIEW_GROUP, Message, run_group
from runs.serving.rates import Throttle

EVERY_S = 0.1  # between two messages with points
EVERY_REFETCH_S = 1.0  # reading everything again takes longer
PING = message_text({"type": "ping", "cursor": 0})
log = structlog.get_logger(__name__)

SLOWEST_SEND_S = 10.0  # who cannot read for so long is let go, and comes back with a cursor
CLOSING_S = 2.0  # who does not read a close frame either is hung up on
MAX_FRAMES = 20  # a client need not send anything; so many frames in a few seconds are a flood
FLOOD_S = 4.0
FLOOD, TOO_SLOW = 4408, 4409


class Watch(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Base of both sockets. Below are ``feed`` and ``since``."""

    rule: Rule
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
        self.question = AdmissionQuestion(credential_of(self.scope), self.run_id)
        answer = await admission().admit(self)
        if not isinstance(answer, Sight):
            self.end(answer)
            return
        self.sight = answer
        self.joined = self.feed()
        self.joined.join(self, self.since())
        self.writing = asyncio.create_task(self.write())

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
        if self.sending_since is not None and asyncio.get_running_loop().time() - self.sending_since > SLOWEST_SEND_S:
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

    rule = thing(Permission.RUNS_READ)

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

    rule = lists(Permission.RUNS_READ)

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


# Changes of all runs and nodes. Each member gets messages about the runs that its person sees.


class OverviewFeed(Feed):
    def __init__(self, group: str) -> None:
        self._is_listening = False
        self._changed: dict[str, set[str]] = {"run": set(), "sweep": set()}
        self._has_changes = asyncio.Event()
        super().__init__(group)

    def join(self, member: Member, since: int | None) -> None:
        super().join(member, since)
        if self._is_listening:
            member.outbox.hint(PING)

    def receive(self, message: Message) -> None:
        if "run" in message:
            self._changed["run"].add(message["run"])
        elif "sweep" in message:
            self._changed["sweep"].add(message["sweep"])
        else:
            self.hint(message_text(message))
            return
        self._has_changes.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._is_listening = True
        self.hint(PING)  # from here on nothing is missed
        projects: dict[str, str] = {}
        ping_at = loop.time() + feeds.PING_EVERY_S
        while True:
            try:
                async with asyncio.timeout_at(ping_at):
                    await self._has_changes.wait()
            except TimeoutError:
                ping_at = loop.time() + feeds.PING_EVERY_S
                projects.clear()  # what was true of a run need not stay so
                self.hint(message_text({"type": "ping", "cursor": 0, "server": await feeds.server_sentences()}))
            self._has_changes.clear()
            for kind, model in (("run", Run), ("sweep", Sweep)):
                changed, self._changed[kind] = self._changed[kind], set()
                if unknown := changed - projects.keys():
                    projects.update(await database_sync_to_async(projects_of)(model, unknown))
                for one in changed:
                    text, project = message_text({"type": kind, kind: one}), projects.get(one)
                    for member in self.members:
                        if member.sight.sees(project):
                            member.outbox.hint(text)


# Feed of one run: points, log lines, pings with its cursor, and hints that it changed.
#
# No gap remains and nothing is sent twice. Messages of the channel layer are hints: one that continues the feed's
# cursor is forwarded as it is; after any other the feed reads the store. Each member has its own cursor; where a
# message does not continue it, the feed reads the store for that member until it does.


class RunFeed(Feed):
    def __init__(self, group: str) -> None:
        self.run_id = group.removeprefix("run.")
        self.cursor = 0  # up to where members in step have everything
        self._known = 0  # the newest cursor of any message
        self._is_reading = True  # messages received meanwhile may be part of what is read
        self._coming: dict[Member, int | None] | None = {}  # until the cursor is known
        self._behind: set[Member] = set()
        self._is_helping = False
        self._is_quiet = True  # nothing was sent since the last ping
        self._throttle = Throttle(EVERY_S)
        self._has_changes = asyncio.Event()
        super().__init__(group)

    def join(self, member: Member, since: int | None) -> None:
        """Send the member everything after its cursor; without one, everything from now on."""
        super().join(member, since)
        if self._coming is None:
            self._begin(member, since)
        else:
            self._behind.add(member)
            self._coming[member] = since

    def leave(self, member: Member) -> None:
        self._behind.discard(member)
        if self._coming:
            self._coming.pop(member, None)
        super().leave(member)

    def receive(self, message: Message) -> None:
        if message["type"] not in ("batch", "moved"):
            self.hint(message_text(message))
            return
        self._known = max(self._known, message["cursor"])
        is_next = message["type"] == "batch" and message["from"] == self.cursor and not self._is_reading
        if is_next and self._throttle.wait_s(self._now()) == 0:
            self._send_hint(from_wire(message))
        else:
            self._has_changes.set()

    async def run(self) -> None:
        self.cursor = await database_sync_to_async(progress.cursor_of)(self.run_id)
        self._known = max(self._known, self.cursor)
        self._is_reading = False
        coming, self._coming = self._coming or {}, None
        self._behind.difference_update(coming)
        for member, since in coming.items():
            self._begin(member, since)
        ping_at = self._now() + feeds.PING_EVERY_S
        while True:
            await self._wait(ping_at)
            if self._known > self.cursor:
                await self._read_on()
            if self._now() >= ping_at:
                ping_at = self._now() + feeds.PING_EVERY_S
                await self._ping_all()

    def _begin(self, member: Member, since: int | None) -> None:
        member.outbox.begin(self.cursor if since is None else since)
        if member.outbox.cursor == self.cursor:
            member.outbox.hint(_ping(self.cursor))
        else:
            self._help(member)

    async def _wait(self, until: float) -> None:
        """Return then, or as soon as pending changes may be read."""
        while (now := self._now()) < until:
            is_stale = self._known > self.cursor
            wait_s = self._throttle.wait_s(now)
            if is_stale and wait_s == 0:
                return
            self._has_changes.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, now + wait_s) if is_stale else until):
                    await self._has_changes.wait()

    async def _ping_all(self) -> None:
        """Lost messages are noticed at the next message, or here if none came since the last ping."""
        if self._is_quiet:
            stored = await database_sync_to_async(progress.cursor_of)(self.run_id)
            self._known = max(self._known, stored)
            if stored != self.cursor:
                await self._read_on()
        self._is_quiet = True
        ping = message_text({"type": "ping", "cursor": self.cursor, "server": await feeds.server_sentences()})
        for member in self.members - self._behind:
            if member.outbox.is_empty and member.outbox.cursor == self.cursor:
                member.outbox.hint(ping)

    async def _read_on(self) -> None:
        self._is_reading = True
        try:
            change = await self._since(self.cursor)
        finally:
            self._is_reading = False
        if change.cursor < self.cursor:  # the store was emptied, or an older one put in its place
            self._known = change.cursor
        if change.refetch or change.cursor > self.cursor:
            self._send_hint(encode(change))

    async def _since(self, cursor: int) -> Delta:
        change: Delta = await database_sync_to_async(delta.delta_since)(self.run_id, cursor)
        self._known = max(self._known, change.cursor)
        return change

    def _send_hint(self, encoded: EncodedDelta) -> None:
        is_reset = encoded.cursor < self.cursor
        self.cursor = encoded.cursor
        self._is_quiet = False
        self._throttle.record(self._now(), every_s=EVERY_REFETCH_S if encoded.is_refetch else None)
        for member in self.members - self._behind:
            if member.outbox.cursor == encoded.start or is_reset:
                member.outbox.put(encoded)
            elif member.outbox.cursor < encoded.cursor:
                self._help(member)

    def _help(self, member: Member) -> None:
        self._behind.add(member)
        if not self._is_helping:
            self._is_helping = True
            self.spawn(self._bring_up)

    async def _bring_up(self) -> None:
        """Read for the members that are behind until they are in step; those with one cursor share what is read."""
        while self._behind:
            cursor = min(member.outbox.cursor for member in self._behind)
            at_least = self.cursor
            change = await self._since(cursor)
            encoded = encode(change)
            for member in [one for one in self._behind if one.outbox.cursor == cursor]:
                if change.refetch or change.cursor > cursor:
                    member.outbox.put(encoded)
                # A store with less than it had (see _read_on) is found at the next ping, for all members.
                if change.cursor >= self.cursor or change.cursor < at_least:
                    self._behind.discard(member)
                    member.outbox.hint(_ping(change.cursor))
        self._is_helping = False
        self._has_changes.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _ping(cursor: int) -> str:
    return message_text({"type": "ping", "cursor": cursor})
