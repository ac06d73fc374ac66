"""``trainyard forward``: a port of this machine that leads to one of a rank's."""

import argparse
import contextlib
import socket
import threading
from collections.abc import Iterator

from trainyard.cli.screen import Screen
from trainyard.contract.sessions import CHANNEL, FRAME_BYTES, FrameKind, SessionWish
from trainyard.rest.client import Client
from trainyard.rest.session import Session, opened

FAILED = 1
LOOPBACK = "127.0.0.1"


def forward(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Open a port on this machine's loopback that leads to one on a rank's, until it is interrupted."""
    local, remote = arguments.ports
    with opened(client, arguments.id) as web_socket, socket.create_server((LOOPBACK, local)) as server:
        forwarding = Forwarding(Session(web_socket, SessionWish(rank=arguments.rank, port=remote)), server)
        try:
            for _ in forwarding.run():
                where = f"port {remote} of rank {arguments.rank}"
                screen.say(f"http://{LOOPBACK}:{local} leads to {where}. Ctrl-C ends it.")
        except KeyboardInterrupt:
            forwarding.session.send(FrameKind.END)
            return 0
    screen.complain(forwarding.session.end.sentence)
    return FAILED


class Forwarding:
    """Connections that are made here, each under a number of its own on the session."""

    def __init__(self, session: Session, server: socket.socket) -> None:
        self.session, self._server = session, server
        self._connections: dict[int, socket.socket] = {}
        self._last = 0

    def run(self) -> Iterator[None]:
        """Serve until the session ends; yield once it has begun."""
        for kind, payload in self.session.frames():
            if kind == FrameKind.BEGUN:
                threading.Thread(target=self._accept, daemon=True).start()
                yield
            elif kind in (FrameKind.DATA, FrameKind.CLOSE):
                self._take(kind, CHANNEL.unpack_from(payload)[0], payload[CHANNEL.size :])

    def _take(self, kind: FrameKind, channel: int, data: bytes) -> None:
        connection = self._connections.get(channel)
        if connection is None:
            return
        with contextlib.suppress(OSError):  # the program here has left: its reader finds out
            if kind == FrameKind.DATA:
                connection.sendall(data)
            else:
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the server is closed at the end
            while True:
                connection, _ = self._server.accept()
                self._last += 1
                self._connections[self._last] = connection
                self.session.send(FrameKind.OPEN, CHANNEL.pack(self._last))
                threading.Thread(target=self._read, args=(self._last, connection), daemon=True).start()

    def _read(self, channel: int, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while (data := connection.recv(FRAME_BYTES)) and self.session.send_data(data, channel):
                pass
        self._connections.pop(channel, None)
        self.session.send(FrameKind.CLOSE, CHANNEL.pack(channel))
