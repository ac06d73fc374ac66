"""States of runs in this node's memory: how much there is, and what goes because the server says so,
or because the node that owned it is gone."""

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import structlog

from trainyard.contract.node_status import MemoryStatus
from trainyard.spooling.held_folder import remove_tree
from workers.attempt.folder import attempts_in
from workers.replicas.folders import MemoryFolder, NoMemoryFolder, open_memory
from workers.replicas.receiving import KnownAttempt, Receiver

log = structlog.get_logger(__name__)

PORT_FILE = "memory-port"
OWNER = "owner"  # the file that is locked; in it stands the node's home
GONE_AFTER_S = 600.0  # a node worker may be started again: its run goes on from these states
TRIES = 20
PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """``folder`` is None where the node keeps none, and ``problem`` says why."""

    folder: MemoryFolder | None
    problem: str = ""
    lock: IO[bytes] | None = None  # shows other nodes of the machine that this one lives

    @classmethod
    def open(cls, home: Path, environment: Mapping[str, str]) -> "NodeMemory":
        try:
            folder, lock = open_own_memory(home, environment)
            return cls(folder, lock=lock)
        except NoMemoryFolder as error:
            log.warning("memory.none", why=str(error))
            return cls(None, str(error))

    def status(self) -> MemoryStatus:
        if self.folder is None:
            return MemoryStatus(problem=self.problem)
        return MemoryStatus(limit_bytes=self.folder.limit_bytes, runs=self.folder.runs())

    def free(self, runs: Iterable[str]) -> None:
        """Remove what is kept of these runs: the server says that nobody goes on from it."""
        if self.folder is None:
            return
        here = self.folder.runs()
        for run in runs:
            if run in here:
                self.folder.free(run)
                log.info("memory.freed", run=run, bytes=here[run])

    def receive(self, home: Path, address: str, find: Callable[[str], KnownAttempt | None]) -> int | None:
        """Take parts that other nodes send; return the port. It is the one of before where that is free: attempts that
        live know it."""
        if self.folder is None:
            return None
        file = home / PORT_FILE
        known = file.read_text().strip() if file.is_file() else ""
        receiver = Receiver(self.folder, address, find, int(known) if known.isdecimal() else 0)
        receiver.start()
        file.write_text(f"{receiver.port}\n")
        return receiver.port

    def remove_abandoned(self) -> None:
        """Remove what nodes of this machine have left that were killed for good."""
        if self.folder is not None:
            remove_abandoned(self.folder.path)

    def close(self) -> None:
        """Give the memory back: no process of a run lives here."""
        if self.folder is not None:
            self.folder.remove()


# A node worker that ends gracefully gives its memory back. One that is killed for good cannot, and its folder would
# keep memory of the machine until the next boot. So each node worker holds a lock in its own folder, and removes the
# folders of other nodes of the same user where nobody does.


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


def remove_abandoned(own: Path) -> None:
    """Remove the memory folders of this user beside ``own`` whose node is gone, and show that this node is not."""
    with suppress(OSError):
        os.utime(own / OWNER)
    for path in sorted(own.parent.glob(f"trainyard-{os.getuid()}-*")):
        with suppress(OSError):
            if path != own and path.lstat().st_uid == os.getuid() and _is_abandoned(path):
                _remove(path)


def _is_abandoned(folder: Path) -> bool:
    """Return whether no supervisor lives at the node's home, and its node worker is not expected back."""
    try:
        home = Path(os.fsdecode((folder / OWNER).read_bytes()))
        age_s = time.time() - (folder / OWNER).stat().st_mtime
    except (OSError, ValueError):
        return False
    if not home.is_absolute() or (home.is_dir() and age_s <= GONE_AFTER_S):
        return False
    return all(attempt.lock_holder() is None for attempt in attempts_in(home))


def _remove(folder: Path) -> None:
    """Remove it unless its node worker lives after all. The lock keeps one that starts just now waiting."""
    with suppress(OSError), (folder / OWNER).open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(folder)
        log.info("memory.removed", folder=str(folder), why="its node is gone")
