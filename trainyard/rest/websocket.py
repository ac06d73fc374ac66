"""A WebSocket from a terminal to the server. It does not use proxies, and follows no redirect: it carries a token."""

import os
import socket
import ssl
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit

from trainyard.rest.trust import authorities_file

MAX_MESSAGE_BYTES = 16 << 20
CONNECT_S = 15.0


class NoWebSocket(RuntimeError):
    """The server does not open the socket. ``status`` is the HTTP status of its answer, 0 where there is none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class WebSocket:
    """A connection, to be used in ``with``. One thread may read while others write."""

    def __init__(self, url: str, token: str, path: str) -> None:
        """Connect to ``path`` of the server at ``url``. Raises NoWebSocket, and OSError where nobody is there."""
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
            raise NoWebSocket(f"the server does not open the socket: {error}", status) from None
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
