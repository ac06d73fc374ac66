"""What becomes of a handshake for a WebSocket, through the real application."""

from __future__ import annotations

from unittest.mock import patch

from asgiref.sync import async_to_sync

from dashboard.asgi import application
from dashboard.sockets.admission import FORBIDDEN, NOT_FOUND, UNKNOWN_USER
from dashboard.sockets.consumers import FLOOD, MAX_FRAMES
from dashboard.sockets.session_socket import BAD_MESSAGE
from tests.dashboard.rules.outcomes import CallOutcome
from tests.sockets import Socket

# Only whoever was admitted gets as far as to send too much, or what is no message.
OUTCOMES = {
    UNKNOWN_USER: CallOutcome.UNKNOWN,
    FORBIDDEN: CallOutcome.FORBIDDEN,
    NOT_FOUND: CallOutcome.HIDDEN,
    FLOOD: CallOutcome.ALLOWED,
    BAD_MESSAGE: CallOutcome.ALLOWED,
}
OWN_PAGE = ((b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"))


def call_socket(path: str, *headers: tuple[bytes, bytes]) -> CallOutcome:
    """Shake hands, send what nobody may send, and return what the code of the end says of the permission."""
    # What Channels closes between two queries is the connection with the test's transaction.
    with patch("channels.db.close_old_connections"):
        return OUTCOMES.get(async_to_sync(_closing_code)(path, *headers), CallOutcome.FAILED)


async def _closing_code(path: str, *headers: tuple[bytes, bytes]) -> int:
    socket = Socket(application, path, *OWN_PAGE, *headers)
    assert await socket.connect()
    for _ in range(MAX_FRAMES + 1):
        await socket.send(text="x")
    code = await socket.closing_code()
    await socket.leave()
    return code
