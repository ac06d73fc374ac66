"""The server's end of an interactive session: frames through Valkey to its node and back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import redis.asyncio
from django.conf import settings

from runs.interactive.opening import OpenSession
from trainyard.contract.seals import BadSeal, session_key
from trainyard.contract.session_frames import Frame, FrameLock
from trainyard.contract.sessions import FrameKind

READ_S = 1.0  # at a time
MAX_READ = 16  # frames at a time
MAX_WAITING = 256  # frames that wait for the node
PAUSE_S = 0.02
SILENT_S = 15.0  # a node reports every few seconds that the session lives


class NodeSilent(Exception):
    """The node of the session does not answer, or not any more."""


class SessionLink:
    """Sends and receives the frames of one session for one connection of its person."""

    def __init__(self, opened: OpenSession) -> None:
        record = opened.record
        self.record = record
        self.link = opened.link
        url = str(settings.REDIS_URL)
        self._client = redis.asyncio.Redis.from_url(url, socket_timeout=10, socket_connect_timeout=5)
        self._up_key = session_key(record.node, record.session, "up")
        self._down_key = session_key(record.node, record.session, "down")
        self._up = FrameLock(opened.node_key, record.session, "up")
        self._down = FrameLock(opened.node_key, record.session, "down")
        self._sent = 0
        self._sending = asyncio.Lock()

    async def send(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Send a frame to the node. Raises RedisError, and NodeSilent where it takes none any more."""
        async with self._sending:
            self._sent += 1
            frame = Frame(self.link, self._sent, kind, payload)
            waiting = await self._client.lpush(self._down_key, self._down.lock(frame))
        deadline = asyncio.get_running_loop().time() + SILENT_S
        while waiting > MAX_WAITING:
            if asyncio.get_running_loop().time() > deadline:
                raise NodeSilent("it takes nothing any more")
            await asyncio.sleep(PAUSE_S)
            waiting = await self._client.llen(self._down_key)

    async def frames(self, since: int = 0) -> AsyncIterator[Frame]:
        """Yield what the node sends after the frame ``since``. Raises RedisError, BadSeal for what is not from the node
        or not in its place, NodeSilent where nothing comes any more."""
        loop = asyncio.get_running_loop()
        last, number, heard_at = f"{since}-1" if not since else f"{since}-0", 0, loop.time()
        while loop.time() - heard_at < SILENT_S:
            found: Any = await self._client.xread({self._up_key: last}, count=MAX_READ, block=int(READ_S * 1000))
            for _, entries in found or ():
                for entry, fields in entries:
                    last, heard_at = entry.decode(), loop.time()
                    frame = self._up.unlock(fields.get(b"d", b""))
                    if f"{frame.number}-0" != last or (number and frame.number != number + 1):
                        raise BadSeal("a frame of the session was lost on the way")
                    number = frame.number
                    yield frame
        raise NodeSilent("it sends nothing any more")

    async def close(self) -> None:
        await self._client.aclose()
