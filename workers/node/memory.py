"""States of runs in this node's memory: how much there is, and what goes because the server says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import structlog

from trainyard.contract.node_status import MemoryStatus
from workers.attempt.folder import attempts_in
from workers.replicas.folders import MemoryFolder, NoMemoryFolder
from workers.replicas.ownership import open_own_memory, remove_abandoned
from workers.replicas.receiving import KnownAttempt, Receiver

log = structlog.get_logger(__name__)

PORT_FILE = "memory-port"


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """``folder`` is None where the node keeps none, and ``problem`` says why."""

    folder: MemoryFolder | None
    problem: str = ""
    lock: IO[bytes] | None = None  # shows other nodes of the machine that this one lives

    @classmethod
    def open(cls, home: Path, environment: Mapping[str, str]) -> NodeMemory:
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
            remove_abandoned(self.folder.path, has_supervisors)

    def close(self) -> None:
        """Give the memory back: no process of a run lives here."""
        if self.folder is not None:
            self.folder.remove()


def has_supervisors(home: Path) -> bool:
    """Return whether a supervisor lives at the node's home, with a node worker or without."""
    return any(attempt.lock_holder() is not None for attempt in attempts_in(home))
