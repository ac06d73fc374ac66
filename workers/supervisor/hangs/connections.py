"""Connections of a rank whose bytes nobody acknowledges, as the kernel lists them: the network behind them is cut."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from workers.machine.sockets import socket_inodes

TABLES = ("tcp", "tcp6")
ESTABLISHED, RETRANSMITTING = "01", "01"
LEAST_TRIES = 3  # to send again: in the first two seconds
LASTING_TRIES = 5  # in the first 6.2 s, where the kernel waits 0.2 s before the first and doubles that each time
MOST = 8  # that are named


def unacknowledged(pid: int, proc: Path = Path("/proc"), *, least_tries: int = LEAST_TRIES) -> list[str]:
    """Return the far ends, as ``address:port``, of the process's connections that carry nothing any more."""
    tables = (proc / str(pid) / "net" / table for table in TABLES)
    stuck = {inode: far for table in tables for inode, far in _stuck(table, least_tries)}
    if not stuck:
        return []
    return sorted(stuck[inode] for inode in socket_inodes(proc / str(pid) / "fd") & stuck.keys())[:MOST]


def _stuck(table: Path, least_tries: int) -> list[tuple[str, str]]:
    """Return inode and far end of the sockets that send the same bytes again and again."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split()
        if len(words) < 10 or words[3] != ESTABLISHED:
            continue
        waiting, timer, tries = words[4].partition(":")[0], words[5].partition(":")[0], int(words[6], 16)
        if int(waiting, 16) > 0 and timer == RETRANSMITTING and tries >= least_tries:
            found.append((words[9], _address(words[2])))
    return found


def _address(text: str) -> str:
    """Return ``0100007F:D2BA`` as ``127.0.0.1:53946``: words of four bytes in the machine's order."""
    address, _, port = text.partition(":")
    words = [int(address[place : place + 8], 16) for place in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return f"{socket.inet_ntop(family, packed).removeprefix('::ffff:')}:{int(port, 16)}"
