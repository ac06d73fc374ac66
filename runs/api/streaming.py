"""Long answers, sent while they are read. Under ASGI Django would first put an ordinary iterator into memory whole."""

import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar
from weakref import finalize

import structlog
from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from runs.api.auth import actor
from runs.models import User
from runs.records.files.encrypted import EncryptedOutput
from runs.rights.access import Forbidden, as_of_now
from runs.serving.rates import TooManyRequests

log = structlog.get_logger(__name__)

EVERY_S = 4.0  # whoever loses the right gets nothing more within five seconds

MAX_OPEN, MAX_OPEN_OF_ALL = 10, 20  # of one person, and of all in this process, whose pool has 40 connections
_open: dict[object, int] = {}  # who reads each answer

stopping = threading.Event()  # this process: answers that have no end are to end, and clients ask another one

T = TypeVar("T")
Part = TypeVar("Part", str, bytes)
LINES_AT_ONCE = 2000
CHUNK_BYTES = 1024 * 1024
RANGE = re.compile(r"bytes=(\d{1,18})-")


def text_response(
    request: HttpRequest,
    lines: Iterator[str],
    right: "LastingRight",
    content_type: str = "text/plain; charset=utf-8",
    name: str = "",
) -> StreamingHttpResponse:
    """Answer with lines of text, a few thousand at a time; with a ``name`` as a file that is to be saved."""
    response = stream(request, _parts(lines), right, content_type)
    if name:
        response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def stream(
    request: HttpRequest, parts: Generator[Part], right: "LastingRight", content_type: str
) -> StreamingHttpResponse:
    """Answer with the parts, of which none is empty, one after the other, for as long as the right lasts. Raises
    TooManyRequests."""
    key, readers = object(), list(_open.values())
    if readers.count(right.user.pk) >= MAX_OPEN:
        raise TooManyRequests(int(EVERY_S), f"Your account, which reads {MAX_OPEN} long answers,")
    if len(readers) >= MAX_OPEN_OF_ALL:
        raise TooManyRequests(int(EVERY_S), f"Everybody here, with {MAX_OPEN_OF_ALL} long answers at once,")
    allowed = right.over(parts)
    content = _from_thread(allowed, parts) if isinstance(request, ASGIRequest) else allowed
    response = StreamingHttpResponse(content, content_type=content_type)
    _open[key] = right.user.pk
    finalize(response, _open.pop, key, None)  # however it ended, and if nobody ever read it
    return response


def _parts(lines: Iterator[str]) -> Generator[str]:
    while part := "".join(islice(lines, LINES_AT_ONCE)):
        yield part


async def _from_thread(allowed: Generator[Part], parts: Generator[Part]) -> AsyncIterator[Part]:
    """The parts come out of the database, so each is asked for in the thread of this request; so is the end, where
    somebody leaves in the middle, since what they read may hold a transaction open."""
    try:
        while part := await sync_to_async(_giving_back)(lambda: next(allowed, None)):
            yield part
    finally:
        await sync_to_async(parts.close)()


def _giving_back(work: Callable[[], T]) -> T:
    """Do it, and keep no connection to the database while somebody reads slowly: 40 are for all that a web is asked.
    What reads of one moment keeps its own."""
    try:
        return work()
    finally:
        for one in connections.all(initialized_only=True):
            if not one.in_atomic_block and not getattr(one, "is_snapshot", False):
                one.close_if_unusable_or_obsolete()


def file_response(
    request: HttpRequest,
    path: Path,
    right: "LastingRight | None",
    encrypted: EncryptedOutput | None = None,
    name: str = "",
) -> HttpResponseBase:
    """Answer with a file that is to be saved, a chunk at a time: all of it, or from the byte that ``Range`` names. It
    breaks off where the right does not last; None: what a node fetches, which is asked about once. Raises CannotDecrypt
    for one that is ``encrypted`` and does not open.

    ``ETag`` is size and time; with another one in ``If-Range`` all of it is sent, since the file is another by now.
    """
    stat = path.stat()
    size = stat.st_size if encrypted is None else encrypted.size()
    tag = f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"'
    first = _first_byte(request, tag)
    if first is not None and first >= size:
        return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    headers = {"Content-Length": str(size - (first or 0)), "Accept-Ranges": "bytes", "ETag": tag}
    if first is not None:
        headers["Content-Range"] = f"bytes {first}-{size - 1}/{size}"
    if (disposition := content_disposition_header(True, name or path.name)) is not None:
        headers["Content-Disposition"] = disposition
    parts = _file_parts(path, first or 0) if encrypted is None else encrypted.pieces(first or 0)
    allowed = parts if right is None else right.over(parts)
    content = _chunks(parts, right) if isinstance(request, ASGIRequest) else allowed
    status = 200 if first is None else 206
    return StreamingHttpResponse(content, content_type="application/octet-stream", headers=headers, status=status)


def _first_byte(request: HttpRequest, tag: str) -> int | None:
    """Return where the answer begins, None for all of it. Ranges with an end, or several, are answered by all."""
    found = RANGE.fullmatch(request.headers.get("Range", ""))
    return int(found[1]) if found is not None and request.headers.get("If-Range", tag) == tag else None


async def _chunks(parts: Iterator[bytes], right: "LastingRight | None") -> AsyncIterator[bytes]:
    """Yield the chunks, each read in some thread: a slow disk must hold up neither the loop nor other requests."""
    while part := await sync_to_async(lambda: next(parts, b""), thread_sensitive=False)():
        if right is not None:
            await sync_to_async(_giving_back)(right.check)
        yield part


def _file_parts(path: Path, first: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(first)
        while part := file.read(CHUNK_BYTES):
            yield part


# The right to an answer that takes long to send: asked for again every few seconds, as that to a socket is.


class RightLost(Exception):
    """Nothing more is sent: the connection breaks, so that nobody takes the part for the whole."""


class LastingRight:
    """The right of whoever sent the request to what ``ask`` lets the person have. ``ask`` raises as loaders do."""

    def __init__(self, request: HttpRequest, ask: Callable[[User], object]) -> None:
        self._request = request
        self.user = actor(request)
        self._ask = ask
        self._asked_at = time.monotonic()

    def check(self) -> None:
        """Ask again if it is time. Raises RightLost."""
        if time.monotonic() - self._asked_at < EVERY_S:
            return
        try:
            self._ask(self._now())
        except (PermissionDenied, Http404) as error:
            log.info("answer.broken_off", user=self.user.pk, path=self._request.path, reason=str(error))
            raise RightLost(str(error)) from error
        self._asked_at = time.monotonic()

    def _now(self) -> User:
        session = self._request.session
        if self.user.token is None and not session.exists(str(session.session_key)):
            raise Forbidden("The session has ended.")
        return as_of_now(self.user)

    def over(self, parts: Iterable[T]) -> Generator[T]:
        """Yield the parts for as long as the right lasts. Raises RightLost."""
        for part in parts:
            self.check()
            yield part
