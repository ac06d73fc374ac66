"""Feed of one run: points, log lines, pings with its cursor, and hints that it changed.

No gap remains and nothing is sent twice. Messages of the channel layer are hints: one that continues the feed's cursor
is forwarded as it is; after any other the feed reads the store. Each member has its own cursor; where a message does
not continue it, the feed reads the store for that member until it does.
"""

import asyncio
import contextlib

from channels.db import database_sync_to_async

from dashboard.sockets import feeds
from dashboard.sockets.feeds import Feed, Member
from runs.records.deltas import encoded
from runs.records.deltas.delta import Delta
from runs.records.deltas.encoded import EncodedDelta, encode, from_wire, message_text
from runs.records.metrics import progress
from runs.serving.broadcast import Message
from runs.serving.rates import Throttle

EVERY_S = 0.1  # between two messages with points
EVERY_REFETCH_S = 1.0  # reading everything again takes longer


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
        change: Delta = await database_sync_to_async(encoded.delta_since)(self.run_id, cursor)
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
            self.spawn(self._bring_up())

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
