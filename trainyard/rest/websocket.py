"""A WebSocket from a terminal: as much of RFC 6455 as the client's side of our own sockets needs.

Written here since the client's package brings no library for it. It does not use proxies.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit

from trainyard.rest.trust import authorities_file

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAX_MESSAGE_BYTES = 16 << 20
MAX_HEAD_BYTES = 64 * 1024
CONNECT_S = 15.0


class NoWebSocket(RuntimeError):
    """The server does not open the socket. ``status`` is the HTTP status of its answer, 0 where there is none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class WebSocket:
    """A connection. One thread may read while others write."""

    def __init__(self, url: str, token: str, path: str) -> None:
        """Connect to ``path`` of the server at ``url``. Raises NoWebSocket, and OSError where nobody is there."""
        parts = urlsplit(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._socket: socket.socket = socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S)
        if parts.scheme == "https":
            trusted = authorities_file(url)
            context = ssl.create_default_context(cafile=trusted or os.environ.get("SSL_CERT_FILE"))
            self._socket = context.wrap_socket(self._socket, server_hostname=parts.hostname)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._writing = threading.Lock()
        self.close_code = 0
        try:
            self._shake_hands(parts.netloc, parts.path.rstrip("/") + path, token)
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, message: str | bytes) -> None:
        """Send one message. Raises OSError."""
        self._send(TEXT, message.encode()) if isinstance(message, str) else self._send(BINARY, message)

    def messages(self) -> Iterator[str | bytes]:
        """Yield what the server sends until it closes; then ``close_code`` says why. Raises OSError."""
        parts, kind = bytearray(), 0
        while True:
            is_last, code, payload = self._frame()
            if code == CLOSE:
                self.close_code = struct.unpack(">H", payload[:2])[0] if len(payload) > 1 else 1005
                self._send(CLOSE, payload[:2])
                return
            if code == PING:
                self._send(PONG, payload)
            elif code in (TEXT, BINARY, CONTINUATION):
                kind = code or kind
                parts += payload
                if len(parts) > MAX_MESSAGE_BYTES:
                    raise OSError("the server sent a message that is too long")
                if is_last:
                    yield parts.decode("utf-8", "replace") if kind == TEXT else bytes(parts)
                    parts = bytearray()

    def close(self) -> None:
        """Say goodbye; ``messages`` ends once the server has answered."""
        self._send(CLOSE, struct.pack(">H", 1000))

    def _shake_hands(self, host: str, path: str, token: str) -> None:
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        lines = (
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            f"Origin: {self._origin}",
            f"Authorization: Bearer {token}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        )
        self._socket.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode())
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
            if len(self._buffer) > MAX_HEAD_BYTES:
                raise NoWebSocket("the server's answer does not end")
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        self._buffer = bytearray(rest)
        status, *fields = head.decode("latin1").split("\r\n")
        words = status.split(" ", 2)
        code = int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0
        if code != 101:
            raise NoWebSocket(f"the server does not open the socket: {status}", code)
        found = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in fields)}
        digest = hashlib.sha1(key.encode() + MAGIC, usedforsecurity=False).digest()
        if found.get("sec-websocket-accept") != base64.b64encode(digest).decode():
            raise NoWebSocket("what answers is no WebSocket server", code)

    def _send(self, code: int, payload: bytes) -> None:
        mask = secrets.token_bytes(4)
        size = len(payload)
        if size < 126:
            head = struct.pack(">BB", 0x80 | code, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x80 | code, 0x80 | 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | code, 0x80 | 127, size)
        with self._writing:
            self._socket.sendall(head + mask + masked(payload, mask))

    def _frame(self) -> tuple[bool, int, bytes]:
        first, second = self._take(2)
        size = second & 0x7F
        if size == 126:
            size = struct.unpack(">H", self._take(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self._take(8))[0]
        if size > MAX_MESSAGE_BYTES or second & 0x80:
            raise OSError("the server sent a frame that is none")
        return bool(first & 0x80), first & 0x0F, self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._fill()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _fill(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionResetError("the server has closed the connection")
        self._buffer += data


def masked(payload: bytes, mask: bytes) -> bytes:
    """Return the payload under the mask, or from under it."""
    size = len(payload)
    if not size:
        return b""
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(key)).to_bytes(size)
