"""The socket of an interactive session: admitted, then frames of the person and of the node pass through.

Its first message is a ``SessionWish`` in JSON. After that a message is a frame: one byte for its kind, then what it
carries; those of the node have their number, eight bytes, behind the kind. How a session began or ended is JSON.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import redis.asyncio
import structlog
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404
from redis.exceptions import RedisError

from dashboard.http.credentials import Credential, credential_of, user_of
from dashboard.sockets.admission import FORBIDDEN, NOT_FOUND, UNAVAILABLE, UNKNOWN_USER, AdmissionQuestion, admission
from runs.interactive import opening
from runs.models import User
from runs.rights.access import Permission, Sight, why_not_enter
from runs.rights.access.operations import thing
from runs.values.refused import Refused
from trainyard.contract.base import BadDocument, decode, encode, to_builtins
from trainyard.contract.seals import BadSeal, session_key
from trainyard.contract.session_frames import Frame, FrameLock
from trainyard.contract.sessions import ABANDONED_S, FROM_PEOPLE, KEEP_EVERY_S, FrameKind, SessionEnd, SessionWish

log = structlog.get_logger(__name__)

BAD_MESSAGE, OVER, TOO_MANY = 4400, 4410, 4429
MAX_PER_PERSON = 8  # open sessions at a time, in one process
LAST_S = 5.0  # for a node's report of the end
NUMBER = struct.Struct(">Q")
SENTENCES = {
    UNKNOWN_USER: "You are signed out: the session has ended.",
    FORBIDDEN: "You may not run commands beside this run's ranks any more: the session has ended.",
    NOT_FOUND: "There is no such run that you can see.",
    UNAVAILABLE: "The server cannot say now who may do what: the session has ended. Try again soon.",
}
WENT_ON = "The session goes on in another window."

_open: Counter[int] = Counter()  # sessions by person
concluding: set[asyncio.Task[None]] = set()  # sessions whose person is gone


# The server's end: frames through Valkey to the node and back.

READ_S = 1.0  # at a time
MAX_READ = 16  # frames at a time
MAX_WAITING = 256  # frames that wait for the node
PAUSE_S = 0.02
SILENT_S = 15.0  # a node reports every few seconds that the session lives


class NodeSilent(Exception):
    """The node of the session does not answer, or not any more."""


class SessionLink:
    """Sends and receives the frames of one session for one connection of its person."""

    def __init__(self, opened: opening.OpenSession) -> None:
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


class SessionSocket(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """``/ws/runs/<id>/session/``"""

    rule = thing(Permission.RUNS_ENTER)
    channel_layer_alias = "none"
    link: SessionLink | None = None
    user: User | None = None
    is_over = False
    is_recorded = False  # its end
    may_return = True

    async def connect(self) -> None:
        self.run_id = self.scope["url_route"]["kwargs"]["run_id"]
        self.question = AdmissionQuestion(credential_of(self.scope), self.run_id, is_session=True)
        self.tasks: list[asyncio.Task[None]] = []
        self.ending: asyncio.Task[None] | None = None
        await self.accept()  # a refusal before this has no code that a page could read
        answer = await admission().admit(self)
        if not isinstance(answer, Sight):
            await self.refuse(answer)

    async def refuse(self, code: int) -> None:
        """Close a socket that is not admitted, with the reason where its person sees the run."""
        why = await why_refused(self.question.credential, self.run_id) if code == FORBIDDEN else ""
        await self.finish(code, SessionEnd(code="forbidden", sentence=why or SENTENCES[code]))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.is_over:
            return
        try:
            if self.link is None:
                await self.begin(decode(text_data or "", SessionWish))
            else:
                await self.pass_on(bytes_data or b"")
        except (BadDocument, ValueError) as error:
            await self.finish(BAD_MESSAGE, SessionEnd(code="bad-message", sentence=f"Not accepted: {error}."))
        except (Refused, Http404, PermissionDenied) as error:
            code = error.code if isinstance(error, Refused) else "forbidden"
            await self.finish(OVER, SessionEnd(code=code, sentence=str(error)))
        except (RedisError, OSError, NodeSilent) as error:
            await self.broken(error)

    async def begin(self, wish: SessionWish) -> None:
        """Begin the session, or go on with one. Raises what the actions raise."""
        user = await database_sync_to_async(user_of)(self.question.credential)
        if user is None:
            await self.finish(UNKNOWN_USER, SessionEnd(code="signed-out", sentence=SENTENCES[UNKNOWN_USER]))
            return
        if _open[user.pk] >= MAX_PER_PERSON:
            sentence = f"You have {MAX_PER_PERSON} sessions open. End one of them first."
            await self.finish(TOO_MANY, SessionEnd(code="too-many", sentence=sentence))
            return
        _open[user.pk] += 1
        self.user = user
        self.link = SessionLink(await database_sync_to_async(self._opened)(user, wish))
        await self.link.send(FrameKind.KEEP)
        if self.link.link > 1 and wish.terminal:
            await self.link.send(FrameKind.SIZE, struct.pack(">HH", wish.rows, wish.columns))
        record = self.link.record
        started = {"session": record.session, "node": record.node_name, "rank": record.rank}
        await self.send(text_data=encode({"type": "started", **started}))
        works = (self.guarded(self.forward, self.link, wish.since), self.guarded(self.keep, self.link))
        self.tasks = [asyncio.create_task(work) for work in works]

    async def guarded(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
        try:
            await work(*arguments)  # made here: this task may be cancelled before it begins
        except Exception as error:  # Valkey is away, or a frame of the node's is none: the socket closes and says so
            await self.broken(error)

    def _opened(self, user: User, wish: SessionWish) -> opening.OpenSession:
        if wish.session:
            return opening.resume(actor=user, run_id=self.run_id, session=wish.session)
        return opening.begin(actor=user, run_id=self.run_id, wish=wish, address=(self.scope.get("client") or ("",))[0])

    async def pass_on(self, data: bytes) -> None:
        """Send a frame of the person to the node. Raises ValueError for what is none."""
        assert self.link is not None
        kind = FrameKind(data[0] if data else 0)
        size = {FrameKind.SIZE: 4, FrameKind.TAKEN: 8}.get(kind)
        if kind not in FROM_PEOPLE or (size is not None and len(data) != size + 1):
            raise ValueError(f"a frame of the kind {kind.name} and {len(data)} bytes")
        if kind in (FrameKind.OPEN, FrameKind.DATA, FrameKind.CLOSE) and len(data) < 5:
            raise ValueError("a frame without the number of its connection")
        await self.link.send(kind, b"The session was ended by its person." if kind == FrameKind.END else data[1:])

    async def forward(self, link: SessionLink, since: int) -> None:
        """Send the person what the node sends, no faster than they read."""
        async for frame in link.frames(since):
            if frame.kind == FrameKind.ENDED:
                await self.record_end(link, decode(frame.payload, SessionEnd))
                return
            if self.is_over:  # its end has not reached the person yet, who may have lost the right to all this
                return
            try:
                await self.send(bytes_data=bytes((frame.kind,)) + NUMBER.pack(frame.number) + frame.payload)
            except OSError:  # the person has gone, and disconnect() is on its way
                return

    async def keep(self, link: SessionLink) -> None:
        while True:
            await asyncio.sleep(KEEP_EVERY_S / 2)
            if not await database_sync_to_async(opening.keep)(link.record, link.link):
                await self.finish(OVER, SessionEnd(code="went-on", sentence=WENT_ON))
                return
            if sentence := await database_sync_to_async(opening.ended_sentence)(link.record):
                await self.record_end(link, SessionEnd(code="attempt-ended", sentence=sentence))
                return
            await link.send(FrameKind.KEEP)

    async def record_end(self, link: SessionLink, end: SessionEnd) -> None:
        self.is_recorded = True
        await database_sync_to_async(opening.finish)(link.record, end)
        await self.finish(OVER, end)

    async def broken(self, error: Exception) -> None:
        log.warning("session.broken", error=str(error) or type(error).__name__)
        name = self.link.record.node_name if self.link is not None else "the run"
        words = f"Node {name} does not answer: the session has ended. Its command ends there within {ABANDONED_S:g} s."
        if isinstance(error, RedisError | OSError):
            words = "Valkey does not answer: the session has ended."
        elif isinstance(error, BadSeal | BadDocument):
            words = f"The session has ended, since {error}."
        await self.finish(UNAVAILABLE, SessionEnd(code="lost", sentence=words))

    # Admission checks again every few seconds.

    def stay(self, sight: Sight) -> None:
        """Do nothing: the person may still be here."""

    def end(self, code: int) -> None:
        if self.ending is None:
            end = SessionEnd(code="forbidden", sentence=SENTENCES.get(code, ""))
            self.ending = asyncio.create_task(self.finish(code, end))

    async def finish(self, code: int, end: SessionEnd) -> None:
        if self.is_over:
            return
        self.is_over = True
        self.may_return = end.code not in ("forbidden", "bad-message")
        try:
            await self.send(text_data=encode({"type": "ended", **to_builtins(end)}))
            await self.close(code=code)
        except OSError:  # the person has gone
            pass
        if self.link is not None and not self.may_return:  # last: a node that takes nothing keeps nobody in
            try:
                await self.link.send(FrameKind.END, end.sentence.encode())
            except (RedisError, OSError, NodeSilent) as error:  # the node ends it when nobody keeps it
                log.info("session.end_not_sent", error=str(error))

    async def disconnect(self, code: int) -> None:
        admission().leave(self)
        self.is_over = True
        for task in self.tasks:
            task.cancel()
        if self.user is not None:
            _open[self.user.pk] -= 1
        if self.link is not None:
            may_return = self.may_return and self.link.record.terminal
            leave(self.link, is_recorded=self.is_recorded, may_return=may_return)


async def why_refused(credential: Credential, run_id: str) -> str:
    """Return why the person may not enter the run, as a sentence."""

    def ask() -> str:
        user = user_of(credential)
        return why_not_enter(user, run_id) if user is not None else ""

    return str(await database_sync_to_async(ask)())


def leave(link: SessionLink, *, is_recorded: bool, may_return: bool) -> None:
    task = asyncio.create_task(link.close() if is_recorded else conclude(link, may_return=may_return))
    concluding.add(task)
    task.add_done_callback(concluding.discard)


async def conclude(link: SessionLink, *, may_return: bool) -> None:
    """See a session to its end whose person is gone: a terminal may be gone on with for a while, all else ends."""
    end = SessionEnd(code="lost", sentence="The connection was lost.")
    try:
        if not may_return:
            await link.send(FrameKind.END, b"The person's connection was lost.")
        async with asyncio.timeout(ABANDONED_S + LAST_S if may_return else LAST_S):
            async for frame in link.frames():
                if frame.kind == FrameKind.ENDED:
                    end = decode(frame.payload, SessionEnd)
                    break
    except Exception as error:  # as in forward()
        log.info("session.unconcluded", error=str(error) or type(error).__name__)
    try:
        if await database_sync_to_async(opening.is_newest)(link.record, link.link):
            await database_sync_to_async(opening.finish)(link.record, end)
    except (RedisError, OSError) as error:
        log.warning("session.end_not_recorded", session=link.record.session, error=str(error))
    finally:
        await link.close()
