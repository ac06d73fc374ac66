"""Whether a process of this machine listens at a port: this shows that cold ranks open a process group.

Rank 0 of a torch process group listens at MASTER_PORT from its beginning to its end. A cold rank is an interpreter of
the user's own and is not watched, but the kernel lists its sockets.
"""

from __future__ import annotations

from pathlib import Path

TABLES = ("tcp", "tcp6")
LISTEN = "0A"


def is_listening(port: int, proc: Path = Path("/proc/self/net")) -> bool | None:
    """Return whether a TCP socket listens at ``port``, None where the kernel does not list sockets (it is no Linux).
    ``proc``: where it lists those of the network that is meant."""
    wanted, is_known = f"{port:04X}", False
    for table in TABLES:
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        is_known = True
        for line in lines:
            _, local, _, state = line.split(maxsplit=4)[:4]
            if state == LISTEN and local.rpartition(":")[2] == wanted:
                return True
    return False if is_known else None
