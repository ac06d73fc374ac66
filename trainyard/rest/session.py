"""An interactive session from this machine: frames over the server's socket, at the pace of who reads them."""

import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from trainyard.contract.base import BadDocument, convert, encode
from trainyard.contract.sessions import CHANNEL, FRAME_BYTES, NUMBER, WINDOW_BYTES, FrameKind, SessionEnd, SessionWish
from trainyard.rest.client import Client, quoted
from trainyard.rest.config import load
from trainyard.rest.connection import ApiError
from trainyard.rest.trust import authorities_file

MAX_MESSAGE_BYTES = 16 << 20
CONNECT_S = 15.0
TAKEN_EVERY_BYTES = 32 * 1024


# A WebSocket from a terminal to the server. It does not use proxies, and follows no redirect: it carries a token.


class WebSocket:
    """A connection, to be used in ``with``. One thread may read while others write."""

    def __init__(self, url: str, token: str, path: str) -> None:
        """Connect to ``path`` of the server at ``url``. Raises ApiError where that does not open the
        socket (with the HTTP status of its answer, 0 where there is none), and OSError where nobody is there."""
        # Imported when it is needed: that takes longer than most commands have to wait for their other imports.
        from websockets.client import ClientProtocol
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
        from websockets.sync.client import ClientConnection
        from websockets.typing import Origin
        from websockets.uri import parse_uri

        parts = urlsplit(url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        place = parse_uri(f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}{path}")
        reached = socket.create_connection((place.host, place.port), timeout=CONNECT_S)
        try:
            if place.secure:
                trusted = authorities_file(url) or os.environ.get("SSL_CERT_FILE")
                context = ssl.create_default_context(cafile=trusted)
                reached = context.wrap_socket(reached, server_hostname=place.host)
            reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reached.settimeout(None)
        except BaseException:
            reached.close()
            raise
        protocol = ClientProtocol(place, origin=Origin(f"{parts.scheme}://{parts.netloc}"), max_size=MAX_MESSAGE_BYTES)
        self._connection = ClientConnection(reached, protocol, ping_interval=None)
        self.close_code = 0
        try:
            self._connection.handshake({"Authorization": f"Bearer {token}"}, None, CONNECT_S)
        except (InvalidHandshake, ConnectionClosed) as error:
            self._connection.close_socket()
            status = error.response.status_code if isinstance(error, InvalidStatus) else 0
            raise ApiError(status, f"{url}: the server does not open the socket: {error}", []) from None
        except BaseException:
            self._connection.close_socket()
            raise

    def __enter__(self) -> Self:
        self._connection.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close_socket()

    def send(self, message: str | bytes) -> None:
        """Send one message. Raises OSError."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._connection.send(message)
        except ConnectionClosed as error:
            raise ConnectionResetError(str(error)) from None

    def messages(self) -> Iterator[str | bytes]:
        """Yield what the server sends until it closes; then ``close_code`` says why. Raises OSError."""
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                message = self._connection.recv()
            except ConnectionClosed as error:
                if error.rcvd is None:
                    raise ConnectionResetError(f"the connection to the server is lost: {error}") from None
                self.close_code = error.rcvd.code
                return
            yield message


class Received(NamedTuple):
    kind: FrameKind
    payload: bytes


class Session:
    """One session. ``frames`` is read by one thread; others may send."""

    def __init__(self, socket: WebSocket, wish: SessionWish) -> None:
        self._socket = socket
        self._has_credit = threading.Condition()
        self._sent = self._passed = 0  # bytes of INPUT and DATA
        self._untaken = 0  # bytes that were received since the last TAKEN
        self._is_over = False
        self.end = SessionEnd(code="lost", sentence="The connection to the server was lost.")
        socket.send(encode(wish))

    def frames(self) -> Iterator[Received]:
        """Yield what the node sends. At the end ``end`` says how the session ended. A frame counts as seen when the
        next one is asked for."""
        try:
            for message in self._socket.messages():
                if isinstance(message, str):
                    self._read(message)
                    continue
                kind, number = FrameKind(message[0]), NUMBER.unpack_from(message, 1)[0]
                payload = message[1 + NUMBER.size :]
                if kind == FrameKind.CREDIT:
                    with self._has_credit:
                        self._passed = NUMBER.unpack(payload)[0]
                        self._has_credit.notify_all()
                yield Received(kind, payload)
                self._take(number, len(payload), is_idle=kind == FrameKind.ALIVE)
        except OSError:  # `end` says so
            pass
        finally:
            with self._has_credit:
                self._is_over = True
                self._has_credit.notify_all()

    def send(self, kind: FrameKind, payload: bytes = b"") -> None:
        """Send a frame, none where the session is over."""
        try:
            self._socket.send(bytes((kind,)) + payload)
        except OSError:  # `frames` finds out, too
            return

    def send_data(self, data: bytes, channel: int | None = None) -> bool:
        """Send input of the command, or data of a forwarded connection, as fast as it is read there. False where the
        session is over."""
        for start in range(0, len(data), FRAME_BYTES):
            part = data[start : start + FRAME_BYTES]
            with self._has_credit:
                self._has_credit.wait_for(lambda: self._is_over or self._sent - self._passed < WINDOW_BYTES)
                if self._is_over:
                    return False
                self._sent += len(part)
            if channel is None:
                self.send(FrameKind.INPUT, part)
            else:
                self.send(FrameKind.DATA, CHANNEL.pack(channel) + part)
        return True

    def _read(self, message: str) -> None:
        document = json.loads(message)
        if document.get("type") == "ended":
            try:
                self.end = convert(document, SessionEnd)
            except BadDocument:  # a server of another version
                self.end = SessionEnd(code="ended", sentence=str(document.get("sentence") or ""))

    def _take(self, number: int, size: int, *, is_idle: bool) -> None:
        self._untaken += size
        if is_idle or self._untaken >= TAKEN_EVERY_BYTES:
            self._untaken = 0
            self.send(FrameKind.TAKEN, NUMBER.pack(number))


def opened(client: Client, run: str) -> WebSocket:
    """Open it. Raises ApiError where the server does not."""
    return WebSocket(client.url, load().token, f"/ws/runs/{quoted(run)}/session/")
