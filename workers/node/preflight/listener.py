"""Answers other nodes that try a connection to this one.

It listens at a port that the kernel chooses, as the master port of a run is chosen, so that a firewall which lets one
through lets the other through. Whoever connects sends NONCE_BYTES and gets a digest of them with this node's id:
nothing else is read, and nothing else is said.
"""

from __future__ import annotations

import contextlib
import hashlib
import selectors
import socket
import threading
import time
from dataclasses import dataclass

import structlog

from workers.supervisor.ranks.launch import reserve_port

log = structlog.get_logger(__name__)

NONCE_BYTES = 32
MAX_CONNECTIONS = 256
LIMIT_S = 3.0  # for one connection
BACKLOG = 128
WAKE_S = 0.5


def answer_to(nonce: bytes, node: str) -> bytes:
    """Return what the node with this id answers."""
    return hashlib.sha256(nonce + node.encode()).hexdigest().encode()


@dataclass
class _Connection:
    socket: socket.socket
    until: float
    nonce: bytes = b""


class ProbeListener(threading.Thread):
    """One thread for all connections: one that never sends its nonce holds up no other."""

    def __init__(self, node: str, address: str) -> None:
        super().__init__(name="probe-listener", daemon=True)
        self._node = node
        self._server = reserve_port(address)
        self._server.listen(BACKLOG)
        self._server.setblocking(False)
        self.port: int = self._server.getsockname()[1]
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._open: dict[int, _Connection] = {}

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        self._selector.register(self._server, selectors.EVENT_READ)
        while not self._over.is_set():
            try:
                for key, _ in self._selector.select(WAKE_S):
                    if key.fileobj is self._server:
                        self._accept()
                    elif (connection := self._open.get(key.fd)) is not None:
                        self._read(connection)
                self._close_late()
            except Exception:  # the node must go on answering whatever one connection did
                log.exception("probe.listener")
                self._over.wait(WAKE_S)
        for connection in list(self._open.values()):
            self._close(connection)
        self._selector.close()
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it has gone again
            accepted, _ = self._server.accept()
            if len(self._open) >= MAX_CONNECTIONS:
                accepted.close()
                return
            accepted.setblocking(False)
            self._open[accepted.fileno()] = _Connection(accepted, time.monotonic() + LIMIT_S)
            self._selector.register(accepted, selectors.EVENT_READ)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(NONCE_BYTES - len(connection.nonce))
            connection.nonce += data
            if len(connection.nonce) == NONCE_BYTES:
                connection.socket.send(answer_to(connection.nonce, self._node))
            elif data:
                return
        except BlockingIOError:
            return
        except OSError:  # it has gone again
            pass
        self._close(connection)

    def _close_late(self) -> None:
        now = time.monotonic()
        for connection in [one for one in self._open.values() if one.until < now]:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        self._open.pop(connection.socket.fileno(), None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.socket.close()
