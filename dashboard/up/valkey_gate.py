"""`python -m dashboard.up.valkey_gate FD`: TLS in front of the embedded Valkey, for nodes on other machines.

The embedded server has no TLS of its own. Who may do what is Valkey's matter: every user of it has a password here.
"""

import asyncio
import contextlib
import logging.config
import signal
import socket
import sys
from functools import partial
from pathlib import Path

import structlog
import uvloop

from dashboard import logs
from dashboard.home import home_path, socket_path, tls_folder
from dashboard.http.listening import ServerCertificate, TlsListener
from trainyard.rest.trust import SERVER

log = structlog.get_logger(__name__)

REFUSAL = b"-ERR This port takes connections with TLS only: use a rediss:// address.\r\n"
HIGH_WATER_BYTES = 1 << 20
READ_BYTES = 1 << 18
FIRST_COMMAND_S = 20.0  # a client that says nothing is no node


async def attend(target: Path, node: asyncio.StreamReader, to_node: asyncio.StreamWriter) -> None:
    """Pass on both ways, at the pace of who reads there, until either end is over. Reaches for Valkey once TLS has
    begun."""
    try:
        valkey, to_valkey = await asyncio.open_unix_connection(target, limit=HIGH_WATER_BYTES)
    except OSError as error:  # it is being started again; the node comes back
        log.warning("valkey_gate.away", error=str(error))
        to_node.close()
        return
    for writer in (to_valkey, to_node):
        writer.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
    ways = [
        asyncio.create_task(pass_on(node, to_valkey, FIRST_COMMAND_S)),
        asyncio.create_task(pass_on(valkey, to_node)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        to_valkey.close()
        to_node.close()


async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, first_s: float | None = None) -> None:
    """``first_s``: how long the first bytes are waited for."""
    with contextlib.suppress(OSError):  # an end is gone; a TimeoutError is one, too
        async with asyncio.timeout(first_s):
            data = await source.read(READ_BYTES)
        while data:
            target.write(data)
            await target.drain()
            data = await source.read(READ_BYTES)


def protocol(target: Path) -> asyncio.StreamReaderProtocol:
    return asyncio.StreamReaderProtocol(asyncio.StreamReader(HIGH_WATER_BYTES), partial(attend, target))


async def serve(listener: socket.socket, certificate: ServerCertificate, target: Path) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    gate = TlsListener(listener, certificate, partial(protocol, target), REFUSAL)
    await over.wait()
    gate.close()
    await gate.wait_closed()


def main(descriptor: int) -> None:
    logging.config.dictConfig(logs.configure())
    home = home_path()
    uvloop.run(serve(socket.socket(fileno=descriptor), ServerCertificate(tls_folder(home) / SERVER), socket_path(home)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
