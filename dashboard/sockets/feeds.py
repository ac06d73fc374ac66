"""One subscription per watched run and process, for all sockets that watch it.

What a message means to them is in run_feed and overview_feed.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import structlog
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from dashboard.sockets.admission import UNAVAILABLE
from dashboard.sockets.outbox import Outbox
from runs.presenting import server_state
from runs.rights.access import Sight
from runs.serving.broadcast import Message

log = structlog.get_logger(__name__)

PING_EVERY_S = 4.0


class Member(Protocol):
    """A socket, as a feed knows it."""

    outbox: Outbox
    sight: Sight

    def end(self, code: int) -> None:
        """Close it."""


class Feed:
    """Members of one group of the channel layer, from the first that joins until the last one left."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.members: set[Member] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.spawn(self._listen())

    def join(self, member: Member, since: int | None) -> None:
        """Send the member what happens. ``since`` is the cursor up to which it has everything."""
        self.members.add(member)

    def leave(self, member: Member) -> None:
        self.members.discard(member)
        if not self.members:
            self._close()

    def receive(self, message: Message) -> None:
        """Take a message of the group."""
        raise NotImplementedError

    async def run(self) -> None:
        """Do the feed's other work until it is cancelled."""
        raise NotImplementedError

    def hint(self, text: str) -> None:
        for member in self.members:
            member.outbox.hint(text)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self) -> None:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(self.group, channel)
        try:
            self.spawn(self.run())  # listen first, then look: what comes in between comes twice, and is dropped
            while True:
                self.receive((await layer.receive(channel))["message"])
        finally:
            await layer.group_discard(self.group, channel)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # whatever it is, no socket may stay open and silent: the pages come again
            log.warning("feed.failed", group=self.group, error=str(error), exc_info=True)
            self._close()
            for member in self.members:
                member.end(UNAVAILABLE)

    def _close(self) -> None:
        if _feeds().get(self.group) is self:
            del _feeds()[self.group]
        for task in self._tasks:
            task.cancel()


async def server_sentences() -> list[str]:
    """Return what is wrong with the server itself: each ping says it, so that open pages show it."""
    state: server_state.ServerState = await database_sync_to_async(server_state.known)()
    return state.sentences


F = TypeVar("F", bound=Feed)

_all: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Feed]] = WeakKeyDictionary()


def feed_of(kind: type[F], group: str) -> F:
    """Return the process's feed of that group. (A process has one event loop; tests have one each.)"""
    feed = _feeds().get(group)
    if not isinstance(feed, kind):
        feed = _feeds()[group] = kind(group)
    return feed


def _feeds() -> dict[str, Feed]:
    return _all.setdefault(asyncio.get_running_loop(), {})
