"""A session's frames between its relay and Valkey, with a window: what nobody reads is not read from the command."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio
import structlog
from redis.exceptions import RedisError

from trainyard.contract.seals import BadSeal, session_key
from trainyard.contract.session_frames import Frame, FrameLock, FrameOrder
from trainyard.contract.sessions import WINDOW_BYTES, FrameKind
from workers.transport.node_config import NodeConfig

log = structlog.get_logger(__name__)

RETAINED_BYTES = 64 * 1024  # of what the person has seen: a page that comes again shows the last screen
FRAME_COST_BYTES = 64  # of a frame beside its payload
LISTEN_S = 1  # at a time
AWAY_S = 10.0  # that Valkey may be away
PAUSE_S = 0.3


class SessionGone(Exception):
    """The server has put an end to the session, or cannot be reached any more."""


class SessionLink:
    def __init__(self, config: NodeConfig, session: str) -> None:
        self._client = redis.asyncio.Redis.from_url(config.redis_url, socket_timeout=5, socket_connect_timeout=2)
        self._up_key = session_key(config.id, session, "up")
        self._down_key = session_key(config.id, session, "down")
        self._up = FrameLock(config.key, session, "up")
        self._down = FrameLock(config.key, session, "down")
        self._order = FrameOrder()
        self._number = 0
        self._sending = asyncio.Lock()
        self._waiting = Sizes()  # frames that the person has not seen
        self._seen = Sizes()  # those before them, which are kept for the last screen
        self._taken = 0  # the last frame that the person has seen
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def room(self) -> None:
        """Return once the person has seen enough to be sent more."""
        await self._has_room.wait()

    async def send(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Append a frame. Raises SessionGone."""
        async with self._sending:
            self._number += 1
            data = self._up.lock(Frame(0, self._number, kind, payload))
            self._waiting.add(self._number, len(payload) + FRAME_COST_BYTES)
            self._measure()
            await self._append(data)

    def take(self, number: int) -> None:
        """The person has seen all frames up to this one."""
        self._taken = max(self._taken, min(number, self._number))
        self._measure()

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield what the person and the server send. Raises SessionGone."""
        lost_at = 0.0
        while True:
            try:
                found: Any = await self._client.brpop([self._down_key], timeout=LISTEN_S)
                lost_at = 0.0
            except (RedisError, OSError) as error:
                lost_at = lost_at or time.monotonic()
                if time.monotonic() - lost_at > AWAY_S:
                    raise SessionGone(f"Valkey is away: {error}") from error
                await asyncio.sleep(PAUSE_S)
                continue
            if found is None:
                continue
            try:
                frame = self._down.unlock(found[1])
                if not self._order.takes(frame):
                    continue
            except BadSeal as error:
                raise SessionGone(f"{error}.") from error
            yield frame

    async def close(self) -> None:
        await self._client.aclose()

    async def _append(self, data: bytes) -> None:
        deadline = time.monotonic() + AWAY_S
        oldest = self._seen.first or self._waiting.first
        while True:
            try:
                added = await self._client.xadd(
                    self._up_key, {"d": data}, id=f"{self._number}-0", nomkstream=True, minid=oldest, approximate=False
                )
            except (RedisError, OSError) as error:
                if "equal or smaller" in str(error):  # it was added before the connection broke
                    return
                if time.monotonic() > deadline:
                    raise SessionGone(f"Valkey is away: {error}") from error
                await asyncio.sleep(PAUSE_S)
                continue
            if added is None:
                raise SessionGone("The server has ended the session.")
            return

    def _measure(self) -> None:
        """Forget what is older than the last screen, and see whether there is room for more."""
        while self._waiting.first and self._waiting.first <= self._taken:
            self._seen.add(*self._waiting.pop())
        while self._seen.total > RETAINED_BYTES:
            self._seen.pop()
        if self._waiting.total < WINDOW_BYTES:
            self._has_room.set()
        else:
            self._has_room.clear()


class Sizes:
    """Numbers and bytes of frames, oldest first, and the sum of the bytes."""

    def __init__(self) -> None:
        self._frames: deque[tuple[int, int]] = deque()
        self.total = 0

    @property
    def first(self) -> int:
        """The oldest frame's number, 0 where there is none."""
        return self._frames[0][0] if self._frames else 0

    def add(self, number: int, size: int) -> None:
        self._frames.append((number, size))
        self.total += size

    def pop(self) -> tuple[int, int]:
        number, size = self._frames.popleft()
        self.total -= size
        return number, size
