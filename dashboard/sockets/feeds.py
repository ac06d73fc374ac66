"""One subscription per watched run and process, for all sockets that watch it, and what each of them has still to send:
bounded, however slow its reader is. What a message means to them is in ``consumers``."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import structlog
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer

from dashboard.sockets.admission import UNAVAILABLE, one_per_loop
from runs.presenting import server_state
from runs.records.deltas.delta import EncodedDelta, Steps, both, refetch
from runs.rights.access import Sight
from runs.serving.broadcast import Message

MAX_TEXTS = 128  # six seconds and more of what one run may send
MAX_CHARS = 2_000_000  # four of the largest encoded deltas
MAX_HINTS = 256
AGAIN = '{"type":"again"}'  # what a page does after a reconnect: ask for everything that it shows


class Outbox:
    """The queue between a feed and one socket. If the reader is too slow, points and lines are dropped, and one
    ``refetch`` replaces them, which grows until the reader gets it."""

    def __init__(self) -> None:
        self.cursor = 0  # up to where the client has everything once the queue is sent
        self._sent_cursor = 0  # up to where it has everything that was taken out
        self._queue: deque[tuple[str, EncodedDelta | None, int]] = deque()  # text, its encoded, the cursor after it
        self._num_chars = 0
        self._hints: set[str] = set()
        self._missed: Steps | None = None
        self._is_late = False  # the ``refetch`` is not sent yet
        self._filled = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        return not self._queue and not self._is_late

    def begin(self, cursor: int) -> None:
        self.cursor = self._sent_cursor = cursor

    def put(self, encoded: EncodedDelta) -> None:
        self.cursor = encoded.cursor
        num_chars = sum(map(len, encoded.texts))
        is_full = len(self._queue) - len(self._hints) >= MAX_TEXTS or self._num_chars + num_chars > MAX_CHARS
        if self._is_late or (is_full and self._num_chars):
            self._drop(encoded)
        else:
            last = len(encoded.texts) - 1
            for number, text in enumerate(encoded.texts):
                self._queue.append((text, encoded, encoded.cursor if number == last else encoded.start))
            self._num_chars += num_chars
        self._filled.set()

    def hint(self, text: str) -> None:
        """Add a message without a cursor; while it waits, the same one is not added again."""
        if text in self._hints or AGAIN in self._hints:
            return
        if len(self._hints) >= MAX_HINTS:
            self._queue = deque(item for item in self._queue if item[1] is not None)
            self._hints.clear()
            text = AGAIN
        self._hints.add(text)
        self._queue.append((text, None, 0))
        self._filled.set()

    async def take(self) -> str:
        while self.is_empty:
            self._filled.clear()
            await self._filled.wait()
        if self._is_late:
            text = refetch(self._sent_cursor, self.cursor, self._missed)
            self._is_late, self._missed, self._sent_cursor = False, None, self.cursor
            return text
        text, encoded, cursor = self._queue.popleft()
        if encoded is None:
            self._hints.discard(text)
        else:
            self._num_chars -= len(text)
            self._sent_cursor = cursor
        return text

    def _drop(self, encoded: EncodedDelta) -> None:
        missed = self._missed if self._is_late else []
        for _, waiting, _ in self._queue:
            if waiting is not None:
                missed = both(missed, waiting.steps)
        self._missed, self._is_late = both(missed, encoded.steps), True
        self._queue = deque(item for item in self._queue if item[1] is None)
        self._num_chars = 0


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
        self.spawn(self._listen)

    def join(self, member: Member, since: int | None) -> None:
        """Send the member what happens. ``since`` is the cursor up to which it has everything."""
        self.members.add(member)

    def leave(self, member: Member) -> None:
        self.members.discard(member)
        if not self.members:
            self._close()

    def receive(self, message: Message) -> None:
        raise NotImplementedError

    async def run(self) -> None:
        """Do the feed's other work until it is cancelled."""
        raise NotImplementedError

    def hint(self, text: str) -> None:
        for member in self.members:
            member.outbox.hint(text)

    def spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self) -> None:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(self.group, channel)
        try:
            self.spawn(self.run)  # listen first, then look: what comes in between comes twice, and is dropped
            while True:
                self.receive((await layer.receive(channel))["message"])
        finally:
            await layer.group_discard(self.group, channel)

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()  # made here: this task may be cancelled before it begins
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

_feeds = one_per_loop(dict[str, Feed])


def feed_of(kind: type[F], group: str) -> F:
    feed = _feeds().get(group)
    if not isinstance(feed, kind):
        feed = _feeds()[group] = kind(group)
    return feed
