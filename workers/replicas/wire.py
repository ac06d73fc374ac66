"""Protocol by which a rank sends its part of a state to another node of the run.

The receiver begins with a nonce of 32 hex digits. Each message is one line, which names the attempt and holds a sealed
``StatePart``. A sealed answer says whether there is room; then come the part's bytes, and a second answer. Seals have
the attempt's own key, which control gives to its nodes alone, and are bound to the nonce and to the number of the
message: none counts twice. What is sent is plain bytes with their SHA-256; nothing is decoded but JSON.
"""

from __future__ import annotations

import re
import socket

from trainyard.contract.base import WireStruct

MAX_LINE_BYTES = 4096
NAME = re.compile(r"(rank-\d{1,9}\.safetensors|manifest\.json)")
MANIFEST = "manifest.json"
CHUNK_BYTES = 1 << 20
BEGIN, END = "begin", "end"  # of a part's bytes: there is an answer before, and one behind


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
