"""Protocol by which a rank sends its part of a state to another node of the run, and the rank's side of it.

The receiver begins with a nonce of 32 hex digits. Each message is one line, which names the attempt and holds a sealed
``StatePart``. A sealed answer says whether there is room; then come the part's bytes, and a second answer. Seals have
the attempt's own key, which control gives to its nodes alone, and are bound to the nonce and to the number of the
message: none counts twice. What is sent is plain bytes with their SHA-256; nothing is decoded but JSON.
"""

import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress

from trainyard.contract.base import BadMessage, WireStruct
from trainyard.contract.seals import seal, unseal

MAX_LINE_BYTES = 4096
NAME = re.compile(r"(rank-\d{1,9}\.safetensors|manifest\.json)")
MANIFEST = "manifest.json"
CHUNK_BYTES = 1 << 20
BEGIN, END = "begin", "end"  # of a part's bytes: there is an answer before, and one behind
CONNECT_S = 5.0
SEND_S = 10.0  # for a chunk, and for the answer
PAUSE_S = 20.0  # behind trouble: a node that does not answer must not hold up each state


class PeerFailed(Exception):
    """The other node did not take a part; the text says why."""


class PeerConnection:
    """Made when it is first needed, and again after trouble. For one thread."""

    def __init__(self, node: str, address: str, port: int, *, attempt: str, key: str) -> None:
        self.node = node
        self._target = (address, port)
        self._attempt, self._key = attempt, key
        self._connection: socket.socket | None = None
        self._nonce = ""
        self._number = 0
        self._not_before = 0.0
        self._problem = ""

    def send(self, part: "StatePart", pieces: Sequence[memoryview]) -> None:
        """Return once the part lies whole in the other node's memory. Raises PeerFailed."""
        if time.monotonic() < self._not_before:
            raise PeerFailed(self._problem)
        self._problem = ""
        try:
            if problem := self._send(part, pieces):
                self._problem = f"{self.node} did not take it: {problem}"
        except (OSError, BadLine, BadMessage) as error:
            self._problem = f"{self.node} at {self._target[0]}:{self._target[1]} cannot be reached: {error}"
        if self._problem:
            self.close()
            self._not_before = time.monotonic() + PAUSE_S
            raise PeerFailed(self._problem)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._connection = None

    def _send(self, part: "StatePart", pieces: Sequence[memoryview]) -> str:
        connection = self._connection or self._connect()
        self._number += 1
        text = seal(self._key, part_scope(self._nonce, self._number), part)
        connection.sendall(f"{self._attempt} {text}\n".encode())
        if problem := self._answer(connection, BEGIN):
            return problem
        for piece in pieces:
            for start in range(0, len(piece), CHUNK_BYTES):
                connection.sendall(piece[start : start + CHUNK_BYTES])
        return self._answer(connection, END)

    def _answer(self, connection: socket.socket, moment: str) -> str:
        scope = answer_scope(self._nonce, self._number, moment)
        return unseal(self._key, scope, read_line(connection), PartAnswer).problem

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._target, timeout=CONNECT_S)
        connection.settimeout(SEND_S)
        self._connection, self._number = connection, 0
        self._nonce = read_line(connection)
        return connection


class StatePart(WireStruct, kw_only=True):
    """Announcement of what follows: a part of the state behind ``step``, or its manifest, with which it counts."""

    run: str
    fence: int
    step: int
    name: str
    bytes: int
    sha256: str


class PartAnswer(WireStruct):
    """Reason why the part was not taken; empty where it lies whole in the receiver's memory."""

    problem: str = ""


class BadLine(ValueError):
    """The other side sent something else than a line of this protocol, or closed the connection."""


def part_scope(nonce: str, number: int) -> str:
    return f"replica:{nonce}:{number}"


def answer_scope(nonce: str, number: int, moment: str) -> str:
    return f"replica-answer:{nonce}:{number}:{moment}"


def read_line(connection: socket.socket, limit: int = MAX_LINE_BYTES) -> str:
    """Return the next line, and read nothing behind it. Raises BadLine and OSError."""
    data = bytearray()
    while not data.endswith(b"\n"):
        # Peeked at first: what stands behind the line is a part's.
        seen = connection.recv(limit, socket.MSG_PEEK)
        if not seen:
            raise BadLine("the connection was closed")
        end = seen.find(b"\n") + 1
        data += connection.recv(end or len(seen))
        if len(data) > limit:
            raise BadLine(f"a line has more than {limit} bytes")
    return data[:-1].decode("ascii", "replace")
