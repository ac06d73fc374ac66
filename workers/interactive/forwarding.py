"""Connections of a forwarded port: the person's program connects on their machine, and we connect to the rank's."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable

import structlog

from trainyard.contract.sessions import CHANNEL, FRAME_BYTES, FrameKind
from workers.interactive.link import SessionLink
from workers.machine.processes import PROC, descendants_of, socket_inodes, tcp_sockets

log = structlog.get_logger(__name__)

LISTENING = "0A"
# Addresses that take a connection to 127.0.0.1, the most exact first, as the tables write them: words of four bytes in
# the machine's order. "::" is the last: such a socket may be one of IPv6 alone.
TAKERS = (
    ("tcp", "0100007F"),
    ("tcp6", "0000000000000000FFFF00000100007F"),
    ("tcp", "00000000"),
    ("tcp6", "00000000000000000000000000000000"),
)

LOOPBACK = "127.0.0.1"
MAX_CONNECTIONS = 64
Incoming = asyncio.Queue[bytes | None]  # of one connection; the session's window bounds it


class Forwarding:
    """``count_in`` is called with the bytes that were passed on, ``count_out`` with those that came back."""

    def __init__(
        self, link: SessionLink, port: int, count_in: Callable[[int], Awaitable[None]], count_out: Callable[[int], None]
    ) -> None:
        self._link, self._port, self._count_in, self._count_out = link, port, count_in, count_out
        self._incoming: dict[int, Incoming] = {}  # by the number that the person's side has given the connection
        self._tasks: set[asyncio.Task[None]] = set()

    def problem(self) -> str:
        """Return why the port is not forwarded now, empty where it is. The parent of this process is the supervisor:
        all processes of the attempt on this node are below it."""
        return why_not_forwarded(self._port, descendants_of(os.getppid()))

    async def take(self, kind: FrameKind, payload: bytes) -> None:
        number, data = CHANNEL.unpack_from(payload)[0], payload[CHANNEL.size :]
        incoming = self._incoming.get(number)
        if kind == FrameKind.OPEN and incoming is None:
            if len(self._incoming) >= MAX_CONNECTIONS or self.problem():
                await self._link.send(FrameKind.CLOSE, CHANNEL.pack(number))
                return
            incoming = self._incoming[number] = asyncio.Queue()
            task = asyncio.create_task(self._serve(number, incoming))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind == FrameKind.DATA and incoming is not None:
            incoming.put_nowait(data)
        elif kind == FrameKind.DATA:
            await self._count_in(len(data))  # its connection has just ended
        elif kind == FrameKind.CLOSE and incoming is not None:
            incoming.put_nowait(None)

    async def _serve(self, number: int, incoming: Incoming) -> None:
        try:
            reader, writer = await asyncio.open_connection(LOOPBACK, self._port)
        except OSError as error:
            log.info("forward.refused", port=self._port, error=str(error))
        else:
            towards = asyncio.create_task(self._write(incoming, writer))
            try:
                await self._read(number, reader)
            finally:
                towards.cancel()
                writer.close()
        self._incoming.pop(number, None)
        while not incoming.empty():  # what was never passed on counts as passed on: the window is free again
            await self._count_in(len(incoming.get_nowait() or b""))
        await self._link.send(FrameKind.CLOSE, CHANNEL.pack(number))

    async def _read(self, number: int, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(FRAME_BYTES):
                await self._link.room()
                self._count_out(len(data))
                await self._link.send(FrameKind.DATA, CHANNEL.pack(number) + data)
        except OSError as error:
            log.debug("forward.broken", port=self._port, error=str(error))

    async def _write(self, incoming: Incoming, writer: asyncio.StreamWriter) -> None:
        try:
            while (data := await incoming.get()) is not None:
                writer.write(data)
                await writer.drain()
                await self._count_in(len(data))
            writer.write_eof()
        except OSError as error:
            log.debug("forward.broken", port=self._port, error=str(error))


# Listeners at a port of this machine, as the kernel lists them.


def why_not_forwarded(port: int, pids: Iterable[int]) -> str:
    """Return why connections to the port are not forwarded, empty where one of the processes listens there on the
    loopback."""
    inodes = listening_inodes(port)
    if not inodes:
        return f"Nothing listens at port {port} of 127.0.0.1 on this node."
    if any(inodes & socket_inodes(PROC / str(pid) / "fd") for pid in pids):
        return ""
    return f"Port {port} of this node belongs to no process of this attempt."


def listening_inodes(port: int) -> set[str]:
    """Return the inodes of the sockets that take connections to the port at 127.0.0.1."""
    found: dict[tuple[str, str], set[str]] = {}
    for table, words in tcp_sockets(PROC / "net"):
        address, _, number = words[1].partition(":")
        if words[3] == LISTENING and int(number, 16) == port:
            found.setdefault((table, address), set()).add(words[9])
    return next((found[taker] for taker in TAKERS if taker in found), set())
