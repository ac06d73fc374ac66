"""``python -m workers.interactive.relay``: one session beside a rank, from its first frame to its end.

It is a child of the attempt's supervisor and ends with it. The command is forked first; only then is the node's key
read, so that no process of the command's user can find it.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import structlog

from trainyard.contract import sessions
from trainyard.contract.base import decode, encode
from trainyard.contract.session_frames import Frame
from trainyard.contract.sessions import CHANNEL, FRAME_BYTES, KEEP_EVERY_S, NUMBER, FrameKind, SessionEnd, SessionOrder
from workers.interactive.child import Child, set_size, start
from workers.interactive.forwarding import Forwarding
from workers.interactive.link import SessionGone, SessionLink
from workers.interactive.request import SESSION, RelayRequest
from workers.machine import processes
from workers.transport.node_config import load_config

log = structlog.get_logger(__name__)

TERM_S = 0.5  # between the signals that ask the command to end and SIGKILL
CHECK_S = 0.5
KILL_S = 10.0  # a process that the kernel does not end keeps no session open
OUT, ERR = 1, 2


def main() -> int:
    supervisor = os.getppid()
    request = decode(sys.stdin.buffer.read(), RelayRequest)
    processes.die_with_parent(signal.SIGKILL, supervisor)
    processes.adopt_orphans()
    processes.name_process("ty-session")
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    child = start(request) if request.order.port is None else None
    config = load_config(Path(request.home))
    assert config is not None, "a node that has an attempt has joined"
    try:
        asyncio.run(Relay(request.order, SessionLink(config, request.order.session), child).run())
    finally:
        kill_all(request.order.session)
    return 0


def kill_all(session: str) -> None:
    """End all that the session has started. In a container an orphan is handed to process 1 of its namespaces, not to
    us: it is known by the variable that it was started with."""
    deadline = time.monotonic() + KILL_S
    processes.kill_children()
    while left := processes.with_environment(**{SESSION: session}):
        if time.monotonic() > deadline:
            log.warning("session.left", session=session, pids=[one.pid for one in left])
            return
        for one in left:
            processes.send(one.pid, signal.SIGKILL)
        time.sleep(0.01)
        processes.kill_children()


class Relay:
    def __init__(self, order: SessionOrder, link: SessionLink, child: Child | None) -> None:
        self._order, self._link, self._child = order, link, child
        self._forwarding = None if order.port is None else Forwarding(link, order.port, self._count_in, self._count_out)
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()  # bounded by the session's window
        self._end: SessionEnd | None = None
        self._over = asyncio.Event()
        self._began_at = self._typed_at = self._kept_at = time.monotonic()
        self._bytes_in = self._bytes_passed = self._bytes_out = 0

    async def run(self) -> None:
        work = [self._receive(), self._watch()]
        if self._child is not None:
            streams = [(self._child.output, OUT), (self._child.errors, ERR)]
            outputs = [asyncio.create_task(self._read_output(fd, kind)) for fd, kind in streams if fd is not None]
            work += [self._write_input(self._child), self._await_child(self._child, outputs)]
        if self._forwarding is not None and (problem := await self._port_problem(self._forwarding)):
            self._finish("refused", problem)
        tasks = [asyncio.create_task(self._guarded(one)) for one in work]
        try:
            if self._end is None:
                await self._link.send(FrameKind.BEGUN)
            await self._over.wait()
            await self._terminate()
            end = self._end or SessionEnd(code="lost")
            end.bytes_in, end.bytes_out = self._bytes_in, self._bytes_out
            log.info("session.ended", session=self._order.session, code=end.code)
            await self._link.send(FrameKind.ENDED, encode(end).encode())
        except SessionGone as error:
            log.info("session.gone", session=self._order.session, why=str(error))
            await self._terminate()
        for task in tasks:
            task.cancel()
        await self._link.close()

    async def _port_problem(self, forwarding: Forwarding) -> str:
        """Return why the port is not forwarded, once there was time enough for a process to listen there."""
        alive_at, latest_at = 0.0, time.monotonic() + self._order.wait_s
        while (problem := forwarding.problem()) and time.monotonic() < latest_at:
            if time.monotonic() - alive_at >= KEEP_EVERY_S:
                alive_at = time.monotonic()
                try:
                    await self._link.send(FrameKind.ALIVE)
                except SessionGone as error:
                    return str(error)
            await asyncio.sleep(CHECK_S)
        self._kept_at = self._typed_at = time.monotonic()
        return problem

    def _finish(self, code: str, sentence: str, exit: processes.Exit | None = None) -> None:
        """End the session; the first reason counts."""
        if self._end is None:
            how = exit or processes.Exit(None, None)
            self._end = SessionEnd(code=code, sentence=sentence, exit_code=how.code, signal=how.signal)
            self._over.set()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SessionGone as error:
            self._finish("lost", str(error))
        except Exception as error:  # a session that nobody serves any more must not stay open
            log.exception("session.bug")
            self._finish("lost", f"The session broke off on the node: {type(error).__name__}.")

    async def _receive(self) -> None:
        async for frame in self._link.frames():
            self._kept_at = time.monotonic()
            await self._take(frame)

    async def _take(self, frame: Frame) -> None:
        kind, payload = frame.kind, frame.payload
        if kind in (FrameKind.INPUT, FrameKind.DATA):
            data = payload if kind == FrameKind.INPUT else payload[CHANNEL.size :]
            self._typed_at = time.monotonic()
            self._bytes_in += len(data)
            if self._bytes_in - self._bytes_passed > 2 * sessions.WINDOW_BYTES:
                self._finish("flood", "More was sent than the command has read.")
                return
        if kind == FrameKind.INPUT:
            self._input.put_nowait(payload)
        elif kind == FrameKind.END_OF_INPUT:
            self._input.put_nowait(None)
        elif kind == FrameKind.SIZE and self._child is not None and self._order.terminal:
            set_size(self._child.output, *sessions.SIZE.unpack(payload))
        elif kind == FrameKind.TAKEN:
            self._link.take(NUMBER.unpack(payload)[0])
        elif kind == FrameKind.END:
            self._finish("ended", payload.decode("utf-8", "replace"))
        elif self._forwarding is not None and kind in (FrameKind.OPEN, FrameKind.DATA, FrameKind.CLOSE):
            await self._forwarding.take(kind, payload)

    async def _watch(self) -> None:
        """Report that the session lives, and end it when its time is over."""
        alive_at = 0.0
        while True:
            now = time.monotonic()
            if now - alive_at >= KEEP_EVERY_S:
                alive_at = now
                await self._link.send(FrameKind.ALIVE)
            limit_s = self._order.time_limit_s
            if limit_s is not None and now - self._began_at > limit_s:
                self._finish("time-limit", f"The command was ended after its {limit_s:g} s.")
            elif (self._order.terminal or self._forwarding) and now - self._typed_at > sessions.IDLE_LIMIT_S:
                self._finish("idle", f"The session ended: nobody used it for {sessions.IDLE_LIMIT_S / 60:g} minutes.")
            elif now - self._kept_at > sessions.ABANDONED_S:
                self._finish("abandoned", f"The session ended: its person was away for {sessions.ABANDONED_S:g} s.")
            await asyncio.sleep(CHECK_S)

    async def _read_output(self, descriptor: int, stream: int) -> None:
        """Send what the command prints, no faster than the person reads."""
        reader = asyncio.StreamReader(limit=FRAME_BYTES)
        file = open(descriptor, "rb", 0)  # noqa: SIM115  # the transport closes it
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        limit = self._order.output_limit_bytes
        with contextlib.suppress(SessionGone):
            while data := await _read_some(reader):
                await self._link.room()
                left = None if limit is None else limit - self._bytes_out
                is_over, data = left is not None and len(data) > left, data[:left]
                self._bytes_out += len(data)
                await self._link.send(FrameKind.OUTPUT, bytes((stream,)) + data)
                if is_over:
                    self._finish("output-limit", f"The command was ended: it printed more than {limit:,} bytes.")
                    return

    async def _write_input(self, child: Child) -> None:
        if child.input is None:
            while (data := await self._input.get()) is not None:
                await self._count_in(len(data))
            return
        file = open(child.input, "wb", 0)  # noqa: SIM115, PTH123  # the transport closes it
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        while (data := await self._input.get()) is not None:
            with contextlib.suppress(OSError):  # the command does not read any more
                writer.write(data)
                await writer.drain()
            await self._count_in(len(data))
        writer.close()

    async def _await_child(self, child: Child, outputs: list[asyncio.Task[None]]) -> None:
        """End the session with the command, once what it printed has been read. What it started ends with it: else a
        daemon that holds its output would keep the session open."""
        try:
            _, status = await asyncio.to_thread(os.waitpid, child.pid, 0)
        except ChildProcessError:  # the session ended before it
            return
        await asyncio.to_thread(kill_all, self._order.session)
        await asyncio.wait(outputs)
        how = processes.Exit.of(status)
        words = f"exit code {how.code}" if how.signal is None else f"signal {how.signal}"
        self._finish("exited", f"The command ended with {words}.", how)

    async def _terminate(self) -> None:
        if self._child is not None:
            for number in (signal.SIGHUP, signal.SIGTERM):
                with contextlib.suppress(OSError):
                    os.killpg(self._child.pid, number)
            if processes.children_of(os.getpid()):
                await asyncio.sleep(TERM_S)
        await asyncio.to_thread(kill_all, self._order.session)

    async def _count_in(self, number: int) -> None:
        """Tell the person's side that so many bytes reached the command: it may send as many more."""
        self._bytes_passed += number
        await self._link.send(FrameKind.CREDIT, NUMBER.pack(self._bytes_passed))

    def _count_out(self, number: int) -> None:
        self._bytes_out += number
        self._typed_at = time.monotonic()


async def _read_some(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(FRAME_BYTES)
    except OSError:  # a terminal that nobody holds any more ends like this
        return b""


if __name__ == "__main__":
    sys.exit(main())
