"""A WebSocket client that talks to the real application without a server in between.

(channels.testing has one, but to import it one must install daphne.)
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from asgiref.testing import ApplicationCommunicator

WAIT_S = 10.0


class Socket(ApplicationCommunicator):
    def __init__(self, application: Any, url: str, *headers: tuple[bytes, bytes]) -> None:
        parts = urlsplit(url)
        scope = {
            "type": "websocket",
            "path": unquote(parts.path),
            "query_string": parts.query.encode(),
            "headers": list(headers),
            "subprotocols": [],
        }
        super().__init__(application, scope)

    async def connect(self) -> bool:
        """Shake hands and return whether that was accepted."""
        await self.send_input({"type": "websocket.connect"})
        answer = await self.receive_output(WAIT_S)
        return bool(answer["type"] == "websocket.accept")

    async def send(self, *, text: str | None = None, data: bytes | None = None) -> None:
        await self.send_input({"type": "websocket.receive", "text": text, "bytes": data})

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        message = await self.receive_output(WAIT_S)
        assert message["type"] == "websocket.send", message
        received: dict[str, Any] = json.loads(message["text"])
        return received

    async def receive_more_than_pings(self) -> dict[str, Any]:
        while (message := await self.receive())["type"] == "ping":
            pass
        return message

    async def closing_code(self) -> int:
        while (message := await self.receive_output(WAIT_S))["type"] != "websocket.close":
            pass
        return int(message["code"])

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(WAIT_S)
