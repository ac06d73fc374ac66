"""A rank's connection to the node that keeps copies of its parts."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress

from trainyard.contract.base import BadMessage
from trainyard.contract.seals import seal, unseal
from workers.replicas.wire import (
    BEGIN,
    CHUNK_BYTES,
    END,
    BadLine,
    PartAnswer,
    StatePart,
    answer_scope,
    part_scope,
    read_line,
)

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
        self._attempt = attempt
        self._key = key
        self._connection: socket.socket | None = None
        self._nonce = ""
        self._number = 0
        self._not_before = 0.0
        self._problem = ""

    def send(self, part: StatePart, pieces: Sequence[memoryview]) -> None:
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

    def _send(self, part: StatePart, pieces: Sequence[memoryview]) -> str:
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
