"""Commands that work beside the ranks of a run: one there, with or without a terminal, and a port that leads there."""

import argparse
import contextlib
import os
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from trainyard.cli.launching import overrides_of, with_code
from trainyard.cli.screen import Screen
from trainyard.contract.answers.runs import OpenedApp
from trainyard.contract.base import JsonObject
from trainyard.contract.sessions import CHANNEL, FRAME_BYTES, SIZE, FrameKind, SessionEnd, SessionWish
from trainyard.contract.statuses import FINAL
from trainyard.rest.client import Client, quoted
from trainyard.rest.connection import ApiError
from trainyard.rest.session import Session, opened
from trainyard.spec import merge, parse_spec

if sys.platform != "win32":
    import termios
    import tty

FAILED, TIMED_OUT, INTERRUPTED, SIGNAL = 1, 124, 130, 128
ERR = 2  # the stream of a frame of output


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of ours, and those of the command behind ``--``."""
    if words[:1] not in (["exec"], ["shadow"]) or "--" not in words:
        return words, []
    place = words.index("--")
    return words[:place], words[place + 1 :]


def execute(client: Client, arguments: argparse.Namespace, screen: Screen) -> int:
    """Run a command beside a rank; return its exit code, 128 and the number of the signal that ended it, or 124 after
    its time limit."""
    is_terminal = bool(arguments.terminal)
    if not arguments.words and not is_terminal:
        raise ApiError(400, "exec: a command behind -- is missing; -t alone opens a shell", [])
    if is_terminal and not os.isatty(0):
        raise ApiError(400, "exec: -t needs a terminal here", [])
    columns, rows = os.get_terminal_size() if is_terminal else (80, 24)
    wish = SessionWish(
        rank=arguments.rank,
        command=arguments.words,
        terminal=is_terminal,
        rows=rows or 24,
        columns=columns or 80,
        input=arguments.stdin or is_terminal,
        time_limit_s=arguments.timeout,
        output_limit_bytes=arguments.max_output,
    )
    with opened(client, arguments.id) as web_socket:
        session = Session(web_socket, wish)
        with _raw_terminal(session) if is_terminal else contextlib.nullcontext():
            if wish.input:
                threading.Thread(target=_send_input, args=(session,), daemon=True).start()
            try:
                _print_output(session)
            except KeyboardInterrupt:
                session.send(FrameKind.END)
                return INTERRUPTED
    return _code_of(session.end, screen)


def _print_output(session: Session) -> None:
    for kind, payload in session.frames():
        if kind == FrameKind.OUTPUT:
            descriptor, data = (2 if payload[0] == ERR else 1), payload[1:]
            while data:
                data = data[os.write(descriptor, data) :]


def _send_input(session: Session) -> None:
    while data := os.read(0, FRAME_BYTES):
        if not session.send_data(data):
            return
    session.send(FrameKind.END_OF_INPUT)


@contextlib.contextmanager
def _raw_terminal(session: Session) -> Iterator[None]:
    """Hand every key to the session, and the size of this terminal whenever it changes."""
    is_resized = threading.Event()

    def report_sizes() -> None:  # not in the signal's handler, which may come in the middle of a message
        while is_resized.wait():
            is_resized.clear()
            columns, rows = os.get_terminal_size()
            session.send(FrameKind.SIZE, SIZE.pack(min(rows, 1000), min(columns, 1000)))

    before = termios.tcgetattr(0)
    previous = signal.signal(signal.SIGWINCH, lambda *_: is_resized.set())
    threading.Thread(target=report_sizes, daemon=True).start()
    tty.setraw(0)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous)
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _code_of(end: SessionEnd, screen: Screen) -> int:
    if end.exit_code is not None:
        return end.exit_code
    if end.signal is not None:
        return SIGNAL + end.signal
    screen.complain(end.sentence or "The session has ended.")
    return TIMED_OUT if end.code == "time-limit" else FAILED


LOOK_EVERY_S = 1.0
CONFLICT = 409  # it does not run yet


def notebook(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    """Open the notebook of a run, of a new one where none is named."""
    run = arguments.id or _launched(client, arguments, screen)
    if not arguments.id:
        print(run, flush=True)
    deadline = time.monotonic() + arguments.timeout
    while True:
        try:
            opened = client.call("POST", f"runs/{quoted(run)}/apps", OpenedApp, json={})
            break
        except ApiError as error:
            if error.status != CONFLICT or client.run(run)["status"] in FINAL or time.monotonic() > deadline:
                raise
        time.sleep(LOOK_EVERY_S)
    screen.say(f"Open within {opened['expires_in_s']} s, once: {opened['url']}")
    if arguments.browser:
        webbrowser.open(opened["url"])


def _launched(client: Client, arguments: argparse.Namespace, screen: Screen) -> str:
    document: JsonObject = {
        "name": arguments.name,
        "project": arguments.project,
        "cluster": arguments.cluster,
        "task": {"notebook": True, "code": arguments.code},
    }
    document = merge(document, overrides_of(arguments.overrides))
    document = with_code(client, document, parse_spec(document), Path.cwd(), screen)
    return client.submit(document)["id"]


# ``trainyard forward``: a port of this machine that leads to one of a rank's.


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
