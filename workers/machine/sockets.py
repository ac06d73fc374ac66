"""The sockets of a process, by the kernel's numbers."""

from __future__ import annotations

import os
from pathlib import Path


def socket_inodes(folder: Path) -> set[str]:
    """Return the inodes of the sockets that a process holds. ``folder``: its ``/proc/PID/fd``."""
    found = set()
    try:
        for entry in os.scandir(folder):
            try:
                target = str(Path(entry.path).readlink())
            except OSError:  # closed meanwhile
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:  # it has ended, or belongs to another user
        return set()
    return found
