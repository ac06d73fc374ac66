"""Who listens at a port of this machine, as the kernel lists it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workers.machine.sockets import socket_inodes

LISTENING = "0A"
# What takes a connection to 127.0.0.1, the most exact first, as the tables write addresses: words of four bytes in the
# machine's order. "::" is the last: such a socket may be one of IPv6 alone.
TAKERS = (
    ("tcp", "0100007F"),
    ("tcp6", "0000000000000000FFFF00000100007F"),
    ("tcp", "00000000"),
    ("tcp6", "00000000000000000000000000000000"),
)


def why_not_forwarded(port: int, pids: Iterable[int], proc: Path = Path("/proc")) -> str:
    """Return why connections to the port are not forwarded, empty where one of the processes listens there on the
    loopback."""
    inodes = listening_inodes(port, proc)
    if not inodes:
        return f"Nothing listens at port {port} of 127.0.0.1 on this node."
    if any(inodes & socket_inodes(proc / str(pid) / "fd") for pid in pids):
        return ""
    return f"Port {port} of this node belongs to no process of this attempt."


def listening_inodes(port: int, proc: Path = Path("/proc")) -> set[str]:
    """Return the inodes of the sockets that take connections to the port at 127.0.0.1."""
    found: dict[tuple[str, str], set[str]] = {}
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            address, _, number = words[1].partition(":")
            if words[3] == LISTENING and int(number, 16) == port:
                found.setdefault((table, address), set()).add(words[9])
    return next((found[taker] for taker in TAKERS if taker in found), set())
