"""Limits of size and time for request bodies, by sender. Django would write a whole body to the disk before any view
runs."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpResponse
from django.http.cookie import parse_cookie

from dashboard.http.asgi import ASGIMessage, Receive, Scope, Send
from dashboard.http.credentials import credential_of, user_of
from runs.api.metrics import points
from runs.api.node_auth import Seal, node_of_seal
from runs.api.problems import database_away, problem
from runs.api.training import bundles, local
from runs.records.files import outputs
from runs.serving.database_away import is_away
from trainyard.contract.limits import UPLOAD_PART_BYTES

App = Callable[[Any, Any, Any], Awaitable[None]]

DEFAULT_BYTES = 128 * 1024  # of everybody, on every path: sign-in, admin, what no route answers
DOCUMENT_BYTES = 1024 * 1024  # of a person: a spec with room around it, a form of the admin


@dataclass(frozen=True)
class Limit:
    """A sender whose headers prove that it is a ``caller`` may send so many bytes there."""

    methods: tuple[str, ...]
    path: re.Pattern[str]
    num_bytes: int
    caller: Literal["person", "node"] = "person"


# The first that fits is taken. What is not named here has DEFAULT_BYTES.
LIMITS = (
    Limit(("POST",), re.compile(r"/api/v1/runs/[^/]+/points"), points.MAX_BODY_BYTES),
    Limit(("POST",), re.compile(r"/api/v1/runs/[^/]+/frames"), local.MAX_BODY_BYTES),
    Limit(("PUT",), re.compile(r"/api/v1/runs/local/[^/]+"), local.MAX_DOCUMENT_BYTES),
    Limit(("PUT",), re.compile(r"/api/v1/runs/[^/]+/files/.+"), outputs.MAX_FILE_BYTES),
    Limit(("POST",), re.compile(r"/api/v1/bundles"), bundles.MAX_BUNDLE_BYTES),
    Limit(("PUT",), re.compile(r"/api/v1/node/runs/[^/]+/fences/\d+/files/.+"), outputs.MAX_FILE_BYTES, "node"),
    Limit(("PUT",), re.compile(r"/api/v1/node/runs/[^/]+/fences/\d+/uploads/.+"), UPLOAD_PART_BYTES, "node"),
    Limit(("POST", "PUT", "PATCH"), re.compile(r"/api/v1/(?!node/|nodes/join).*"), DOCUMENT_BYTES),
    Limit(("PUT",), re.compile(r"/mlflow/api/2\.0/mlflow-artifacts/.*"), outputs.MAX_FILE_BYTES),
    Limit(("POST", "PUT", "PATCH"), re.compile(r"/mlflow/.*"), DOCUMENT_BYTES),
    Limit(("POST",), re.compile(r"/launch/(preview/|code/)?"), settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
    Limit(("POST",), re.compile(r"/reports/.*"), DOCUMENT_BYTES),
    Limit(("POST",), re.compile(r"/admin/.*"), DOCUMENT_BYTES),
)
# A client that still sends may lose our answer with the connection: so much is read and dropped before that.
LINGER_BYTES = 256 * 1024 * 1024
LINGER_S = 20.0
# A body that stands still for so long, or comes slower than this after its first seconds, is not waited for.
STILL_S = settings.SLOW_BODY_S
FIRST_S = 60.0
SLOWEST_BYTES_S = 4 * 1024


class BodyLimit:
    """Answers 413 to a body that is larger than its path allows, 401 to a large one from nobody, 408 to one that does
    not come; and keeps none of it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        found = limit_of(scope["method"], scope["path"])
        body = _Body(receive, found.num_bytes if found else DEFAULT_BYTES)
        announced = _announced(headers)
        refusal = await _refusal(scope, found, announced, body.limit)
        if refusal is None:
            await self._app(scope, body.receive, send)
            if body.is_too_large:  # Django took it for a client that left, and said nothing
                refusal = _too_large(body.limit)
            elif body.is_late:
                await send_answer(send, problem(408, "The body did not come."))
        if refusal is not None:
            await body.drain(headers)
            await send_answer(send, refusal)


async def _refusal(scope: Scope, found: Limit | None, announced: int | None, limit: int) -> HttpResponse | None:
    """Return the answer to a body of which nothing need be read."""
    if announced is not None and announced > limit:
        return _too_large(limit)
    if found is None or (announced is not None and announced <= DEFAULT_BYTES):
        return None
    try:
        if await is_known(scope, found.caller):
            return None
    except (OperationalError, InterfaceError) as error:
        if not is_away(error):
            raise
        return database_away(error)
    return problem(401, f"Who sends more than {DEFAULT_BYTES:,} bytes here signs in or sends a token.")


class _Body:
    def __init__(self, receive: Receive, limit: int) -> None:
        self.limit = limit
        self.is_late = False
        self._receive = receive
        self._num_bytes = 0
        self._is_more = True
        self._began_at = time.monotonic()

    @property
    def is_too_large(self) -> bool:
        return self._num_bytes > self.limit

    async def receive(self) -> ASGIMessage:
        """Return the next part. Once all of it is there this waits for the client's leaving, as long as that takes."""
        if not self._is_more:
            return await self._receive()
        now = time.monotonic()
        latest_at = self._began_at + FIRST_S + self._num_bytes / SLOWEST_BYTES_S
        try:
            async with asyncio.timeout(max(0.0, min(STILL_S, latest_at - now))):
                message = await self._next()
        except TimeoutError:
            self.is_late = True
        return {"type": "http.disconnect"} if self.is_too_large or self.is_late else message

    async def drain(self, headers: dict[bytes, bytes]) -> None:
        if headers.get(b"expect", b"").lower() == b"100-continue" and not self._num_bytes:
            return  # whoever asks first has not sent anything, and need not
        try:
            async with asyncio.timeout(LINGER_S):
                while self._is_more and self._num_bytes < self.limit + LINGER_BYTES:
                    await self._next()
        except TimeoutError:
            return

    async def _next(self) -> ASGIMessage:
        message = await self._receive()
        self._num_bytes += len(message.get("body", b""))
        self._is_more = message["type"] == "http.request" and message.get("more_body", False)
        return message


def limit_of(method: str, path: str) -> Limit | None:
    return next((one for one in LIMITS if method in one.methods and one.path.fullmatch(path)), None)


def _announced(headers: dict[bytes, bytes]) -> int | None:
    """Return how long the body says that it is, at least where it is above all limits; None where it says nothing and
    comes until it ends."""
    length = headers.get(b"content-length", b"")
    return int(length[:18]) if length.isdigit() and b"transfer-encoding" not in headers else None


def _too_large(limit: int) -> HttpResponse:
    return problem(413, f"A body has at most {limit:,} bytes here.")


async def send_answer(send: Send, answer: HttpResponse) -> None:
    own = ((name.lower().encode(), value.encode()) for name, value in answer.items())
    headers = [*own, (b"connection", b"close")]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})


# Proof of a request's sender by its headers alone, before anything of its body is read.


async def is_known(scope: Scope, caller: Literal["person", "node"]) -> bool:
    """Return whether a token or a session opens something, or the seal is a node's. The view asks for more."""
    return bool(await database_sync_to_async(_is_node if caller == "node" else _is_person)(scope))


def _is_person(scope: Scope) -> bool:
    cookies = b"; ".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin1")
    credential = credential_of({**scope, "cookies": parse_cookie(cookies)})
    return bool(credential.secret) and user_of(credential) is not None


def _is_node(scope: Scope) -> bool:
    headers = {name.decode("latin1"): value.decode("latin1") for name, value in scope["headers"]}
    seal = Seal.from_headers(headers.get("x-trainyard-node"), headers.get("x-trainyard-seal"))
    digest = headers.get("x-trainyard-digest", "")  # without it nobody knows whose it is before all of it was read
    return seal is not None and node_of_seal(seal, scope["method"], scope["path"], digest) is not None
