"""ASGI's documents, as far as our own layers read them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypedDict

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class Scope(TypedDict, total=False):
    type: str
    method: str
    path: str
    raw_path: bytes
    query_string: bytes
    client: tuple[str, int] | None
    subprotocols: list[str]
    headers: Iterable[tuple[bytes, bytes]]
    cookies: dict[str, str]


class ASGIMessage(TypedDict, total=False):
    type: str
    body: bytes
    more_body: bool
    status: int
    headers: Iterable[tuple[bytes, bytes]]


Receive = Callable[[], Awaitable[ASGIMessage]]
Send = Callable[[ASGIMessage], Awaitable[None]]


# Files of users, pictures and packed columns are dense already. Static files were compressed when they were collected.
COMPRESSED = frozenset({"text/html", "application/json", "application/problem+json"})
MIN_BYTES = 1400  # what fits into one packet arrives no sooner when it is smaller
FOREIGN = ("cross-site", "same-site")  # what Sec-Fetch-Site says where another origin asks


class CompressionMiddleware(GZipMiddleware):
    """Compresses what is worth it. What is streamed stays as it is: each of its parts leaves at once."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not isinstance(response, HttpResponse) or len(response.content) < MIN_BYTES:
            return response
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in COMPRESSED or request.path.startswith(settings.STATIC_URL):
            return response
        if request.headers.get("Sec-Fetch-Site") in FOREIGN:
            return response
        return super().process_response(request, response)
