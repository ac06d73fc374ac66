"""Connections that must begin with TLS. What begins with anything else is answered in words, and closed."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

HANDSHAKE_BYTE = b"\x16"
FIRST_BYTE_S = 20.0
HANDSHAKE_S = 20.0
LINGER_S = 1.0
FULL_PAUSE_S = 0.1  # where the process has no descriptor left

Make = Callable[[], asyncio.BaseProtocol]


class ServerCertificate:
    """The key and chain of a file, read anew once the file was replaced: connections that are open stay as they are."""

    def __init__(self, path: Path) -> None:
        """Raises OSError for a file that does not serve."""
        self._path = path
        self._changed_at = path.stat().st_mtime_ns
        self._context = _context_of(path)

    def context(self) -> ssl.SSLContext:
        try:
            changed_at = self._path.stat().st_mtime_ns
            if changed_at != self._changed_at:
                self._context, self._changed_at = _context_of(self._path), changed_at
        except OSError as error:  # the one before is better than none
            log.warning("tls.certificate_unreadable", error=str(error))
        return self._context


class TlsListener:
    """Accepts connections of one listening socket. ``refusal`` answers a client that does not begin with TLS."""

    def __init__(self, listener: socket.socket, certificate: ServerCertificate, make: Make, refusal: bytes) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._certificate = certificate
        self._make = make
        self._refusal = refusal
        self._beginning: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        self._accepting.cancel()
        for task in self._beginning:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(self._accepting, *self._beginning, return_exceptions=True)
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                log.warning("tls.not_accepted", error=str(error))
                await asyncio.sleep(FULL_PAUSE_S)
                continue
            task = asyncio.create_task(self._begin(connection))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        is_taken = False
        try:
            connection.setblocking(False)
            async with asyncio.timeout(FIRST_BYTE_S):
                first = await _peek(connection)
            if first == HANDSHAKE_BYTE:
                is_taken = True  # by the transport, which closes it
                await loop.connect_accepted_socket(
                    self._make, connection, ssl=self._certificate.context(), ssl_handshake_timeout=HANDSHAKE_S
                )
            elif first:
                await _refuse(connection, self._refusal)
        except (OSError, TimeoutError) as error:  # a handshake that fails is the client's matter
            log.debug("tls.not_begun", error=str(error))
        finally:
            if not is_taken:
                connection.close()


async def _peek(connection: socket.socket) -> bytes:
    """Return the first byte once it is there, and leave it there; nothing where the client leaves."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connection.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection.fileno())
    return connection.recv(1, socket.MSG_PEEK)


async def _refuse(connection: socket.socket, refusal: bytes) -> None:
    """Answer, and read on for a moment: closing at once would take the answer away from a client that still sends."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            await loop.sock_sendall(connection, refusal)
            connection.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(connection, 65536):
                pass


def http_refusal(url: str) -> bytes:
    detail = f"This server takes connections with TLS only: open {url}."
    body = json.dumps({"type": "about:blank", "title": "TLS is needed", "status": 400, "detail": detail}).encode()
    head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\nconnection: close\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _context_of(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(path)
    return context
