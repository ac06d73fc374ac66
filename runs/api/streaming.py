"""Long answers, sent while they are read. Under ASGI Django would first put an ordinary iterator into memory whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from itertools import islice
from pathlib import Path

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

LINES_AT_ONCE = 2000
CHUNK_BYTES = 1024 * 1024


def text_response(request: HttpRequest, lines: Iterator[str]) -> StreamingHttpResponse:
    """Answer with lines of plain text, a few thousand at a time."""
    return stream(request, _parts(lines), "text/plain; charset=utf-8")


def stream(request: HttpRequest, parts: Generator[str], content_type: str) -> StreamingHttpResponse:
    """Answer with the parts, of which none is empty, one after the other."""
    content = _from_thread(parts) if isinstance(request, ASGIRequest) else parts
    return StreamingHttpResponse(content, content_type=content_type)


def _parts(lines: Iterator[str]) -> Generator[str]:
    while part := "".join(islice(lines, LINES_AT_ONCE)):
        yield part


async def _from_thread(parts: Generator[str]) -> AsyncIterator[str]:
    """The parts come out of the database, so each is asked for in the thread of this request; so is the end, where
    somebody leaves in the middle, since what they read may hold a transaction open."""
    try:
        while part := await sync_to_async(lambda: next(parts, ""))():
            yield part
    finally:
        await sync_to_async(parts.close)()


def file_response(request: HttpRequest, path: Path) -> StreamingHttpResponse:
    """Answer with a file that is to be saved, a chunk at a time."""
    kind = "application/octet-stream"
    if not isinstance(request, ASGIRequest):
        return FileResponse(path.open("rb"), content_type=kind, as_attachment=True, filename=path.name)
    headers = {"Content-Length": str(path.stat().st_size)}
    if (disposition := content_disposition_header(True, path.name)) is not None:
        headers["Content-Disposition"] = disposition
    return StreamingHttpResponse(_chunks(path), content_type=kind, headers=headers)


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    """Each chunk is read in some thread: a slow disk must hold up neither the loop nor the other requests."""
    with path.open("rb") as file:
        while part := await sync_to_async(file.read, thread_sensitive=False)(CHUNK_BYTES):
            yield part
