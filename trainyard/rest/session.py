"""An interactive session from this machine: frames over the server's socket, at the pace of who reads them."""

import json
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

from trainyard.contract.base import BadDocument, convert, encode
from trainyard.contract.sessions.documents import FRAME_BYTES, WINDOW_BYTES, FrameKind, SessionEnd, SessionWish
from trainyard.rest.client import Client
from trainyard.rest.config import load
from trainyard.rest.connection import ApiError
from trainyard.rest.websocket import NoWebSocket, WebSocket

TAKEN_EVERY_BYTES = 32 * 1024
NUMBER = struct.Struct(">Q")
CHANNEL = struct.Struct(">I")
SIZE = struct.Struct(">HH")


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
    config = load()
    try:
        return WebSocket(client.url, config.token, f"/ws/runs/{run}/session/")
    except NoWebSocket as error:
        raise ApiError(error.status, f"{client.url}: {error}", []) from None
