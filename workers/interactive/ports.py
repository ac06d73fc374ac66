"""Who listens at a port of this machine, as the kernel lists it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workers.machine.sockets import socket_inodes

LISTENING = "0A"
# Loopback and "every interface", as the tables write addresses: words of four bytes in the machine's order.
TABLES = {
    "tcp": ("0100007F", "00000000"),
    "tcp6": (
        "00000000000000000000000001000000",
        "00000000000000000000000000000000",
        "0000000000000000FFFF00000100007F",
    ),
}


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
    """Return the inodes of the sockets that take connections to the port on the loopback."""
    found = set()
    for table, addresses in TABLES.items():
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for words in map(str.split, lines):
            address, _, number = words[1].partition(":")
            if words[3] == LISTENING and int(number, 16) == port and address in addresses:
                found.add(words[9])
    return found
