"""Long answers, sent while they are read. Under ASGI Django would first put an ordinary iterator into memory whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

LINES_AT_ONCE = 2000


def text_response(request: HttpRequest, lines: Iterator[str]) -> StreamingHttpResponse:
    """Answer with lines of plain text, a few thousand at a time."""
    parts = _parts(lines)
    content = _from_thread(parts) if isinstance(request, ASGIRequest) else parts
    return StreamingHttpResponse(content, content_type="text/plain; charset=utf-8")


def _parts(lines: Iterator[str]) -> Iterator[str]:
    while part := "".join(islice(lines, LINES_AT_ONCE)):
        yield part


async def _from_thread(parts: Iterator[str]) -> AsyncIterator[str]:
    """The parts come out of the database, so each is asked for in the thread of this request."""
    while part := await sync_to_async(lambda: next(parts, ""))():
        yield part
