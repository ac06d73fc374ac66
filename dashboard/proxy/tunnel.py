"""The way to one port on a node for one pass: a session, over which each request and WebSocket has a connection."""

import asyncio
import struct
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from channels.db import database_sync_to_async
from django.core.exceptions import PermissionDenied
from django.http import Http404
from redis.exceptions import RedisError

from dashboard.http.credentials import Credential, user_of
from dashboard.sockets.admission import UNAVAILABLE, UNKNOWN_USER, AdmissionQuestion, admission
from dashboard.sockets.session_socket import NodeSilent, SessionLink, leave, why_refused
from runs.interactive import opening
from runs.interactive.app_tickets import AppPass
from runs.rights.access import Sight
from runs.values.refused import Refused
from trainyard.contract.base import decode
from trainyard.contract.sessions import FRAME_BYTES, KEEP_EVERY_S, WINDOW_BYTES, FrameKind, SessionEnd, SessionWish

log = structlog.get_logger(__name__)

MAX_PER_PERSON = 8  # open tunnels at a time, in one process
MAX_CONNECTIONS = 60  # at a time; the node takes 64
BUFFER_BYTES = 4 * 1024 * 1024  # that browsers have not read yet, of all connections; then the node waits
MAX_BUFFER_BYTES = BUFFER_BYTES + 2 * WINDOW_BYTES  # no node that waits has sent more
TAKEN_EVERY_BYTES = 32 * 1024
BEGIN_S = 20.0
NOTEBOOK_S = 60.0  # in which JupyterLab has begun
CHANNEL = struct.Struct(">I")
NUMBER = struct.Struct(">Q")
LOST_RIGHT = "You may not open this run's apps any more."

_open: Counter[int] = Counter()  # tunnels by person


class NotPassedOn(Exception):
    """``status`` answers the request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class TunnelClosed(NotPassedOn):
    """The way to the app is closed."""


class Channel:
    """One connection to the port. It is read and written by one task each."""

    def __init__(self, tunnel: "Tunnel", number: int) -> None:
        self._tunnel, self._number = tunnel, number
        self._parts: deque[bytes] = deque()
        self._is_over = False
        self._has_news = asyncio.Event()

    async def read(self) -> bytes:
        """Return what comes next, nothing at the end. Raises TunnelClosed."""
        while not self._parts and not self._is_over:
            self._has_news.clear()
            await self._has_news.wait()
        if self._tunnel.closed is not None:
            raise self._tunnel.closed
        if not self._parts:
            return b""
        part = self._parts.popleft()
        self._tunnel.drained(len(part))
        return part

    async def write(self, data: bytes) -> None:
        """Send as fast as the app reads. Raises TunnelClosed."""
        for start in range(0, len(data), FRAME_BYTES):
            await self._tunnel.send_data(self._number, data[start : start + FRAME_BYTES])

    def feed(self, data: bytes) -> None:
        self._parts.append(data)
        self._has_news.set()

    def finish(self) -> None:
        self._is_over = True
        self._has_news.set()

    async def close(self) -> None:
        """End the connection, and drop what nobody has read of it."""
        self._tunnel.drained(sum(map(len, self._parts)))
        self._parts.clear()
        await self._tunnel.disconnect(self._number)


class Tunnel:
    """Begun once; its rights are checked again every few seconds by the admission of sockets."""

    def __init__(self, granted: AppPass) -> None:
        self.granted = granted
        self.question = AdmissionQuestion(Credential(granted.secret, granted.is_token), granted.run, is_session=True)
        self.closed: TunnelClosed | None = None
        self._wait_s = NOTEBOOK_S if granted.app_token else 0.0
        self._link: SessionLink | None = None
        self._channels: dict[int, Channel] = {}
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._last = 0  # number of a connection
        self._sent = self._passed = 0  # bytes of DATA
        self._has_credit = asyncio.Event()
        self._buffered = self._untaken = self._newest = 0
        self._is_due, self._is_drained = asyncio.Event(), asyncio.Event()
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_counted = self._is_recorded = False

    async def begin(self, address: str) -> None:
        """Open the way. Raises TunnelClosed."""
        try:
            await self._begin(address)
            async with asyncio.timeout(BEGIN_S + self._wait_s):
                await asyncio.shield(self._begun)
        except TunnelClosed as closed:
            self.finish(closed)
        except (Refused, Http404, PermissionDenied) as error:
            self.finish(TunnelClosed(403 if isinstance(error, PermissionDenied) else 409, str(error)))
        except (RedisError, OSError, NodeSilent, TimeoutError) as error:
            self._broken(error)
        if self.closed is not None:
            raise self.closed

    async def _begin(self, address: str) -> None:
        answer = await admission().admit(self)
        if not isinstance(answer, Sight):
            raise await self._refusal(answer)
        if _open[self.granted.user] >= MAX_PER_PERSON:
            raise TunnelClosed(429, f"You have {MAX_PER_PERSON} apps of runs open. Close one of them first.")
        _open[self.granted.user] += 1
        self._is_counted = True
        self._link = SessionLink(await database_sync_to_async(self._opened)(address))
        works = (self._receive, self._keep, self._take)
        self._tasks = [asyncio.create_task(self._guarded(work, self._link)) for work in works]
        await self._link.send(FrameKind.KEEP)

    def _opened(self, address: str) -> opening.OpenSession:
        user = user_of(self.question.credential)
        if user is None or user.pk != self.granted.user:
            raise TunnelClosed(401, "You are signed out.")
        wish = SessionWish(rank=self.granted.rank, port=self.granted.port, wait_s=self._wait_s)
        return opening.begin(actor=user, run_id=self.granted.run, wish=wish, address=address)

    async def _refusal(self, code: int) -> TunnelClosed:
        if code == UNAVAILABLE:
            return TunnelClosed(503, "The server cannot say now who may do what. Try again soon.")
        if code == UNKNOWN_USER:
            return TunnelClosed(403, "You are signed out.")
        return TunnelClosed(403, await why_refused(self.question.credential, self.granted.run) or LOST_RIGHT)

    # Connections

    async def connect(self) -> Channel:
        """Return a new connection to the port. Raises TunnelClosed."""
        await self._free.acquire()
        if self.closed is not None:
            self._free.release()
            raise self.closed
        self._last += 1
        channel = self._channels[self._last] = Channel(self, self._last)
        await self._send(FrameKind.OPEN, CHANNEL.pack(self._last))
        return channel

    async def disconnect(self, number: int) -> None:
        if self._channels.pop(number, None) is not None:
            self._free.release()
            if self.closed is None:
                await self._send(FrameKind.CLOSE, CHANNEL.pack(number))

    async def send_data(self, number: int, data: bytes) -> None:
        """Raises TunnelClosed."""
        while self._sent - self._passed >= WINDOW_BYTES and self.closed is None:
            self._has_credit.clear()
            await self._has_credit.wait()
        self._sent += len(data)
        await self._send(FrameKind.DATA, CHANNEL.pack(number) + data)

    def drained(self, num_bytes: int) -> None:
        self._buffered -= num_bytes
        if self._buffered < BUFFER_BYTES:
            self._is_drained.set()

    async def _send(self, kind: FrameKind, payload: bytes = b"") -> None:
        if self.closed is None and self._link is not None:
            try:
                await self._link.send(kind, payload)
            except (RedisError, OSError, NodeSilent) as error:
                self._broken(error)
        if self.closed is not None:
            raise self.closed

    # Frames from the node

    async def _guarded(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        try:
            await work(*arguments)  # made here: this task may be cancelled before it begins
        except Exception as error:  # Valkey is away, or a frame of the node's that is none: the way is closed, and said
            self._broken(error)

    async def _receive(self, link: SessionLink) -> None:
        async for frame in link.frames():
            if frame.kind == FrameKind.ENDED:
                await self._record(link, decode(frame.payload, SessionEnd))
                return
            self._pass_on(frame.kind, frame.payload)
            self._newest = frame.number
            self._untaken += len(frame.payload)
            if frame.kind == FrameKind.ALIVE or self._untaken >= TAKEN_EVERY_BYTES:
                self._is_due.set()

    def _pass_on(self, kind: FrameKind, payload: bytes) -> None:
        if kind == FrameKind.BEGUN and not self._begun.done():
            self._begun.set_result(None)
        elif kind == FrameKind.CREDIT:
            self._passed = min(NUMBER.unpack(payload)[0], self._sent)
            self._has_credit.set()
        elif kind in (FrameKind.DATA, FrameKind.CLOSE):
            channel = self._channels.get(CHANNEL.unpack_from(payload)[0])
            data = payload[CHANNEL.size :]
            if channel is None:  # closed by us
                return
            if kind == FrameKind.CLOSE:
                channel.finish()
            elif data:
                self._buffered += len(data)
                if self._buffered > MAX_BUFFER_BYTES:
                    raise NodeSilent("it sends more than it was let")
                channel.feed(data)

    async def _take(self, link: SessionLink) -> None:
        """Let the node send more, as long as browsers read what has come."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            while self._buffered >= BUFFER_BYTES:
                self._is_drained.clear()
                await self._is_drained.wait()
            self._untaken = 0
            await link.send(FrameKind.TAKEN, NUMBER.pack(self._newest))

    async def _keep(self, link: SessionLink) -> None:
        while True:
            await asyncio.sleep(KEEP_EVERY_S / 2)
            await database_sync_to_async(opening.keep)(link.record, link.link)
            if sentence := await database_sync_to_async(opening.ended_sentence)(link.record):
                await self._record(link, SessionEnd(code="attempt-ended", sentence=sentence))
                return
            await link.send(FrameKind.KEEP)

    # The end

    def stay(self, sight: Sight) -> None:
        """Do nothing: the person may still be here."""

    def end(self, code: int) -> None:
        self.finish(TunnelClosed(503 if code == UNAVAILABLE else 403, LOST_RIGHT))

    async def _record(self, link: SessionLink, end: SessionEnd) -> None:
        self._is_recorded = True
        await database_sync_to_async(opening.finish)(link.record, end)
        self.finish(TunnelClosed(502, end.sentence))

    def _broken(self, error: Exception) -> None:
        log.warning("app.tunnel_broken", error=str(error) or type(error).__name__)
        sentence = "The node of the run does not answer."
        if isinstance(error, RedisError | OSError) and not isinstance(error, TimeoutError):
            sentence = "Valkey does not answer."
        self.finish(TunnelClosed(502, sentence))

    def finish(self, closed: TunnelClosed) -> None:
        """Close every connection; the first reason counts."""
        if self.closed is not None:
            return
        self.closed = closed
        admission().leave(self)
        if self._is_counted:
            _open[self.granted.user] -= 1
        if not self._begun.done():
            self._begun.set_result(None)
        for channel in self._channels.values():
            channel.finish()
        self._has_credit.set()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()
        if self._link is not None:
            leave(self._link, is_recorded=self._is_recorded, may_return=False)
