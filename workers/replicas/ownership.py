"""Owners of memory folders, and the removal of those whose node is gone.

A node worker that ends gracefully gives its memory back. One that is killed for good cannot, and its folder would keep
memory of the machine until the next boot. So each node worker holds a lock in its own folder, and removes the folders
of other nodes of the same user where nobody does.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import structlog

from trainyard.spooling.held_folder import remove_tree
from workers.replicas.folders import MemoryFolder, NoMemoryFolder, open_memory

log = structlog.get_logger(__name__)

OWNER = "owner"  # the file that is locked; in it stands the node's home
GONE_AFTER_S = 600.0  # a node worker may be started again: its run goes on from these states
TRIES = 20
PAUSE_S = 0.05


def open_own_memory(home: Path, environment: Mapping[str, str]) -> tuple[MemoryFolder, IO[bytes]]:
    """Return the node's memory folder, and the lock that shows that the node lives: keep it. Raises NoMemoryFolder."""
    for _ in range(TRIES):
        folder = open_memory(home, environment)
        if (lock := _lock(folder.path, home)) is not None:
            return folder, lock
        time.sleep(PAUSE_S)  # another node is removing it
    raise NoMemoryFolder(f"{folder.path} is held by another process: end it, and start the node again")


def _lock(folder: Path, home: Path) -> IO[bytes] | None:
    """Return None where the file is locked, or was removed meanwhile. A POSIX record lock: no forked child has it."""
    try:
        descriptor = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NoMemoryFolder(f"{folder / OWNER} cannot be opened: {error.strerror or error}") from error
    file = os.fdopen(descriptor, "r+b", buffering=0)
    with suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            file.truncate(0)
            file.write(os.fsencode(home.resolve()))
            return file
    file.close()
    return None


def remove_abandoned(own: Path, is_inhabited: Callable[[Path], bool]) -> None:
    """Remove the memory folders beside ``own`` whose node is gone, and show that this node is not. ``is_inhabited``
    returns whether a supervisor lives at a node's home."""
    with suppress(OSError):
        os.utime(own / OWNER)
    for folder in _others(own):
        if _is_abandoned(folder, is_inhabited):
            _remove(folder)


def _others(own: Path) -> Iterator[Path]:
    """Yield the memory folders of this user's other nodes."""
    for path in sorted(own.parent.glob(f"trainyard-{os.getuid()}-*")):
        with suppress(OSError):
            if path != own and path.lstat().st_uid == os.getuid() and (path / OWNER).lstat():
                yield path


def _is_abandoned(folder: Path, is_inhabited: Callable[[Path], bool]) -> bool:
    """Return whether no supervisor lives at the node's home, and its node worker is not expected back."""
    try:
        home = Path(os.fsdecode((folder / OWNER).read_bytes()))
        age_s = time.time() - (folder / OWNER).stat().st_mtime
    except (OSError, ValueError):
        return False
    if not home.is_absolute():
        return False
    if not home.is_dir():
        return True
    return age_s > GONE_AFTER_S and not is_inhabited(home)


def _remove(folder: Path) -> None:
    """Remove it unless its node worker lives after all. The lock keeps one that starts just now waiting."""
    with suppress(OSError), (folder / OWNER).open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(folder)
        log.info("memory.removed", folder=str(folder), why="its node is gone")
