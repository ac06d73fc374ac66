"""`python -m dashboard.http.serving FD [APPS_FD] [--tls]`: the web process on listening sockets that `up` holds. Apps
of runs have a listener and an application of their own."""

import asyncio
import socket
import sys
from typing import Any, cast

import uvicorn
from django.conf import settings

from dashboard.http.listening import ServerCertificate, TlsListener, http_refusal
from trainyard.rest.trust import SERVER

OPTIONS: dict[str, Any] = {
    "loop": "uvloop",
    "http": "dashboard.http.connections:LimitedConnection",
    "ws": "websockets-sansio",
    "ws_per_message_deflate": False,
    "ws_max_size": 65536,
    "ws_ping_interval": 20,
    "lifespan": "off",
    "timeout_graceful_shutdown": 10,  # seconds; `up` gives less, units and manifests more
    "log_level": "warning",
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,  # dashboard.http.forwarded knows whom to believe
}
PAUSE_S, SPREAD_S = 0.02, 2.0  # between the ends of two sockets of a web that stops, and for all at most
APPS_APPLICATION: Any = "dashboard.proxy.asgi:application"
APPS = {**OPTIONS, "ws_max_size": 64 * 1024 * 1024}  # what a notebook sends its kernel may be large


class Server(uvicorn.Server):
    """uvicorn with a second listener, whose connections are served by another application. With a certificate they are
    accepted by ours, which looks at the first byte, and follows a change of certificates."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        apps: socket.socket | None = None,
        certificate: ServerCertificate | None = None,
    ) -> None:
        super().__init__(config)
        self._listener, self._apps, self._certificate = listener, apps, certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        self.servers = [await self.listen(self._listener, self.config)]
        if self._apps is not None:
            apps = uvicorn.Config(APPS_APPLICATION, **APPS)
            apps.load()
            self.servers.append(await self.listen(self._apps, apps))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        from runs.api.streaming import stopping  # Django is ready by now

        stopping.set()
        for server in self.servers:
            server.close()
        # One after the other: another web takes them in turn, beside what else it is asked.
        kind = cast(type, self.config.ws_protocol_class)
        ends: list[Any] = [one for one in self.server_state.connections if isinstance(one, kind)]
        for one in ends:
            if not self.force_exit:
                await asyncio.sleep(min(PAUSE_S, SPREAD_S / len(ends)))
            if one in self.server_state.connections:
                one.shutdown()
                one.shutdown = lambda: None  # a second close frame is an error
        await super().shutdown(sockets)

    async def listen(self, listener: socket.socket, config: uvicorn.Config) -> asyncio.base_events.Server:
        listener.listen(config.backlog)  # of `serve` from now on, when it answers; of `up` again
        if self._certificate is not None:
            refusal = http_refusal(settings.PUBLIC_URL)
            listening = TlsListener(listener, self._certificate, lambda: self.make(config), refusal)
            return cast(asyncio.base_events.Server, listening)  # close() and wait_closed() are what is asked
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: self.make(config), sock=listener, backlog=config.backlog)

    def make(self, config: uvicorn.Config) -> asyncio.BaseProtocol:
        make = cast(Any, config.http_protocol_class)
        made = make(config=config, server_state=self.server_state, app_state=self.lifespan.state)
        return cast(asyncio.BaseProtocol, made)


def main(arguments: list[str]) -> None:
    listener, *others = [socket.socket(fileno=int(word)) for word in arguments if word.isdigit()]
    apps = others[0] if others else None
    config = uvicorn.Config("dashboard.asgi:application", **OPTIONS)
    certificate = ServerCertificate(settings.TLS_FOLDER / SERVER) if "--tls" in arguments else None
    Server(config, listener, apps, certificate).run()


if __name__ == "__main__":
    main(sys.argv[1:])
