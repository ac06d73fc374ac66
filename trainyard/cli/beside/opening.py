"""The socket of a session."""

from __future__ import annotations

from trainyard.rest.client import Client
from trainyard.rest.config import load
from trainyard.rest.connection import ApiError
from trainyard.rest.websocket import NoWebSocket, WebSocket


def opened(client: Client, run: str) -> WebSocket:
    """Open it. Raises ApiError where the server does not."""
    config = load()
    try:
        return WebSocket(client.url, config.token, f"/ws/runs/{run}/session/")
    except NoWebSocket as error:
        raise ApiError(error.status, f"{client.url}: {error}", []) from None
