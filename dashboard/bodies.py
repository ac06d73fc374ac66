"""How much of a request's body is taken in. Django would first put all of it on the disk, whatever a view then says."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from runs import outputs
from runs.api import points
from runs.api.problems import problem

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

# The first that fits is taken. What is not named here Django limits itself, in the form in which it is read.
LIMITS = (
    (re.compile(r"/api/v1/runs/[^/]+/points"), points.MAX_BODY_BYTES),
    (re.compile(r"/api/v1/node/runs/.*"), outputs.MAX_FILE_BYTES),
    (re.compile(r"/api/v1/.*"), settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
)
# Who sends on while we answer may lose the answer with the connection: so much is read and dropped before that.
LINGER_BYTES = 256 * 1024 * 1024


class BodyLimit:
    """Answers 413 where a body is larger than its path allows, and keeps none of it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        limit = limit_of(scope["path"]) if scope["type"] == "http" else None
        if limit is None:
            await self._app(scope, receive, send)
            return
        body = _Body(receive, limit)
        if body.is_announced_too_large(scope["headers"]):
            await body.drain(scope["headers"])
            await _refuse(send, limit)
            return
        await self._app(scope, body.receive, send)
        if body.is_too_large:  # Django took it for a client that left, and said nothing
            await body.drain(scope["headers"])
            await _refuse(send, limit)


class _Body:
    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._num_bytes = 0
        self._is_more = True

    @property
    def is_too_large(self) -> bool:
        return self._num_bytes > self._limit

    def is_announced_too_large(self, headers: list[tuple[bytes, bytes]]) -> bool:
        length = dict(headers).get(b"content-length", b"0")
        return length.isdigit() and int(length) > self._limit

    async def receive(self) -> Message:
        message = await self._next()
        return {"type": "http.disconnect"} if self.is_too_large else message

    async def drain(self, headers: list[tuple[bytes, bytes]]) -> None:
        if dict(headers).get(b"expect", b"").lower() == b"100-continue" and not self._num_bytes:
            return  # whoever asks first has not sent anything, and need not
        while self._is_more and self._num_bytes < self._limit + LINGER_BYTES:
            await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        self._num_bytes += len(message.get("body", b""))
        self._is_more = message["type"] == "http.request" and message.get("more_body", False)
        return message


def limit_of(path: str) -> int | None:
    return next((limit for pattern, limit in LIMITS if pattern.fullmatch(path)), None)


async def _refuse(send: Send, limit: int) -> None:
    answer = problem(413, f"A body has at most {limit:,} bytes here.")
    headers = [(b"content-type", answer["Content-Type"].encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})
