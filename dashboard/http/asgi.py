"""ASGI's documents, as far as our own layers read them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypedDict


class Scope(TypedDict, total=False):
    """A connection: a request, or the handshake of a socket."""

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
    """A part of a request or of an answer."""

    type: str
    body: bytes
    more_body: bool
    status: int
    headers: Iterable[tuple[bytes, bytes]]


Receive = Callable[[], Awaitable[ASGIMessage]]
Send = Callable[[ASGIMessage], Awaitable[None]]
