"""`python -m dashboard.up.valkey_gate FD`: TLS in front of the embedded Valkey, for nodes on other machines.

The embedded server has no TLS of its own. Who may do what is Valkey's matter: every user of it has a password here.
"""

import asyncio
import logging.config
import signal
import socket
import sys
from pathlib import Path
from typing import cast

import structlog
import uvloop

from dashboard import logs
from dashboard.home import home_path, socket_path, tls_folder
from dashboard.http.listening import ServerCertificate, TlsListener
from trainyard.rest.trust import SERVER

log = structlog.get_logger(__name__)

REFUSAL = b"-ERR This port takes connections with TLS only: use a rediss:// address.\r\n"
HIGH_WATER_BYTES = 1 << 20
FIRST_COMMAND_S = 20.0  # a client that says nothing is no node


class Half(asyncio.Protocol):
    """One side of a connection: what comes in goes out at the other, at the pace of who reads there."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Half | None = None
        self._early = bytearray()  # what came before the other side was there

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._early += data
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def join(self, other: "Half") -> None:
        self.other, other.other = other, self
        assert other.transport is not None, "the other side is connected"
        if self._early:
            other.transport.write(bytes(self._early))
            self._early.clear()


class ClientHalf(Half):
    """The side of the node; it reaches for Valkey once TLS has begun."""

    def __init__(self, target: Path) -> None:
        super().__init__()
        self._target = target
        self._reaching: asyncio.Task[None] | None = None
        self._first: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._first = loop.call_later(FIRST_COMMAND_S, transport.close)
        self._reaching = loop.create_task(self._reach())

    def data_received(self, data: bytes) -> None:
        if self._first is not None:
            self._first.cancel()
            self._first = None
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._first is not None:
            self._first.cancel()
        if self._reaching is not None:
            self._reaching.cancel()
        super().connection_lost(error)

    async def _reach(self) -> None:
        assert self.transport is not None
        self.transport.pause_reading()
        try:
            _, valkey = await asyncio.get_running_loop().create_unix_connection(Half, str(self._target))
        except OSError as error:  # it is being started again; the node comes back
            log.warning("valkey_gate.away", error=str(error))
            self.transport.close()
            return
        self.join(valkey)
        self.transport.resume_reading()


async def serve(listener: socket.socket, certificate: ServerCertificate, target: Path) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    gate = TlsListener(listener, certificate, lambda: ClientHalf(target), REFUSAL)
    await over.wait()
    gate.close()
    await gate.wait_closed()


def main(descriptor: int) -> None:
    logging.config.dictConfig(logs.configure())
    home = home_path()
    uvloop.run(serve(socket.socket(fileno=descriptor), ServerCertificate(tls_folder(home) / SERVER), socket_path(home)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
