"""The person's end of a session beside a rank: what the server would send and read."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

from tests.workers.control import ControlledNode, until
from trainyard.contract.base import JsonObject, decode, to_builtins
from trainyard.contract.seals import ATTACH, session_key
from trainyard.contract.session_frames import Frame, FrameLock
from trainyard.contract.sessions import KEEP_EVERY_S, FrameKind, SessionEnd, SessionOrder

# Two processes that no polite signal ends, one of them with a process group and a session of its own.
STAYS = """
import os, signal, time
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
if not os.fork():
    os.setsid()
    print("on", flush=True)
time.sleep(600)
"""
# A process that goes on behind the command, with its output open.
LEAVES = """
import os, time
if not os.fork():
    os.setsid()
    print("on", flush=True)
    time.sleep(600)
time.sleep(1)
os._exit(3)
"""


def processes_with(mark: str) -> list[str]:
    """Return the pids of the processes whose last word is this, but for Podman's own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if words[-2:] == [mark.encode(), b""] and b"exec" not in words:
            found.append(path.parent.name)
    return found


class Attached:
    """A session that was begun on the node. ``wish``: what its order has beside the place."""

    def __init__(self, node: ControlledNode, order: JsonObject, *command: str, rank: int = 0, **wish: Any) -> None:
        session = secrets.token_hex(16)
        self._node = node
        self._up_key, self._down_key = (session_key(node.id, session, way) for way in ("up", "down"))
        self._up, self._down = FrameLock(node.key, session, "up"), FrameLock(node.key, session, "down")
        self._number = 0
        self._kept_at = time.monotonic()
        node.valkey.xadd(self._up_key, {"d": b""}, id="0-1")
        place = {"session": session, "attempt": order["attempt"], "run": order["run"], "fence": order["fence"]}
        asked = SessionOrder(**place, rank=rank, command=list(command), **wish)
        node.send(ATTACH, to_builtins(asked))

    def send(self, kind: FrameKind, payload: bytes = b"") -> None:
        self._number += 1
        self._node.valkey.lpush(self._down_key, self._down.lock(Frame(1, self._number, kind, payload)))

    def type(self, text: str) -> None:
        self.send(FrameKind.INPUT, text.encode())

    def output(self, stream: int = 1) -> str:
        """Return what was printed so far."""
        frames = [one for one in self._frames() if one.kind == FrameKind.OUTPUT and one.payload[0] == stream]
        return b"".join(one.payload[1:] for one in frames).decode()

    def wait_for(self, text: str) -> str:
        until(lambda: text in self.output(), about=lambda: [self.output(), self.output(2), self._end()])
        return self.output()

    def end(self) -> SessionEnd:
        found: SessionEnd = until(self._end, about=lambda: [self.output(), self.output(2)])
        return found

    def _end(self) -> SessionEnd | None:
        ends = [one for one in self._frames() if one.kind == FrameKind.ENDED]
        return decode(ends[0].payload, SessionEnd) if ends else None

    def _frames(self) -> list[Frame]:
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self._kept_at = time.monotonic()
            self.send(FrameKind.KEEP)
        entries: Any = self._node.valkey.xrange(self._up_key)
        return [self._up.unlock(entry[b"d"]) for _, entry in entries if entry[b"d"]]


def check_that_ending_it_leaves_nothing(node: ControlledNode, order: JsonObject, mark: str, *, terminal: bool) -> None:
    """What a session started ignores polite signals; a person ends it, and the ranks go on."""
    session = Attached(node, order, "python3", "-c", STAYS, mark, terminal=terminal)
    session.wait_for("on")
    until(lambda: len(processes_with(mark)) == 2, about=lambda: processes_with(mark))
    session.send(FrameKind.END, b"The person left.")
    assert session.end().code == "ended"
    assert not processes_with(mark)
    assert node.report(order)["phase"] == "running"  # type: ignore[index]


def check_that_its_command_leaves_nothing(node: ControlledNode, order: JsonObject, mark: str) -> None:
    session = Attached(node, order, "python3", "-c", LEAVES, mark)
    assert session.end().exit_code == 3
    assert session.output() == "on\n"
    assert not processes_with(mark)
