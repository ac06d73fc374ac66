"""`python -m dashboard.http.serving FD`: the web process with TLS on a listening socket that `up` holds."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any, cast

import uvicorn
from django.conf import settings

from dashboard.http.listening import ServerCertificate, TlsListener, http_refusal
from trainyard.rest.trust import SERVER

# The same for uvicorn's own command, which serves without TLS: dashboard.up.programs.
OPTIONS: dict[str, Any] = {
    "loop": "uvloop",
    "http": "dashboard.http.connections:Connection",
    "ws": "websockets-sansio",
    "ws_per_message_deflate": False,
    "ws_max_size": 65536,
    "ws_ping_interval": 20,
    "lifespan": "off",
    "timeout_graceful_shutdown": 2,
    "log_level": "warning",
    "access_log": False,
    "server_header": False,
}


class TlsServer(uvicorn.Server):
    """uvicorn, but for who accepts connections: ours looks at the first byte, and follows a change of certificates."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, certificate: ServerCertificate) -> None:
        super().__init__(config)
        self._listener = listener
        self._certificate = certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        listening = TlsListener(self._listener, self._certificate, self._make, http_refusal(settings.PUBLIC_URL))
        self.servers = [cast(asyncio.base_events.Server, listening)]  # close() and wait_closed() are what is asked
        self.started = True

    def _make(self) -> asyncio.BaseProtocol:
        config = self.config
        make = cast(Any, config.http_protocol_class)
        made = make(config=config, server_state=self.server_state, app_state=self.lifespan.state)
        return cast(asyncio.BaseProtocol, made)


def main(descriptor: int) -> None:
    listener = socket.socket(fileno=descriptor)
    certificate = ServerCertificate(settings.TLS_FOLDER / SERVER)
    TlsServer(uvicorn.Config("dashboard.asgi:application", **OPTIONS), listener, certificate).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
