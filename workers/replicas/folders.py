"""Folders of a node's states in memory, their room, and their content.

Below the node's own folder each run has one:

- ``own/step-N.fence-F/``: parts that ranks of this node took, with a manifest as that of a checkpoint on the disk
- ``own/buffers/``: the files behind these parts; a part in a folder above is a hard link to one
- ``peer/step-N.fence-F/``: parts that ranks of another node sent here; only the node worker writes there

A state is whole where a manifest says what belongs to it and every part lies on some node of the run.
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainyard.contract.base import WireStruct, decode
from trainyard.spooling.held_folder import HeldFolder, remove_tree

FOLDER = "TRAINYARD_MEMORY"  # a memory file system other than SHARED_MEMORY
LIMIT = "TRAINYARD_MEMORY_LIMIT_BYTES"
PLAN = "TRAINYARD_REPLICAS"  # a rank's plan for its states
SHARED_MEMORY = Path("/dev/shm")
SHARE_OF_MEMORY = 0.25  # of the machine's, at most, where LIMIT says nothing
RUN = re.compile(r"[a-z0-9]{1,12}")


class NoRoom(Exception):
    """A state does not fit into the node's memory folder; the text has the numbers."""


class NoMemoryFolder(Exception):
    """This node keeps no states in memory; the text says why."""


@dataclass(frozen=True, slots=True)
class MemoryFolder:
    """A node's folder in memory. All its runs together take at most ``limit_bytes``."""

    path: Path
    limit_bytes: int

    def run(self, run: str) -> "RunMemory":
        return RunMemory(self.path / run)

    def runs(self) -> dict[str, int]:
        """Return how many bytes each run takes here."""
        return {run: used_bytes(self.path / run) for run in run_folders(self.path)}

    def refuse_beyond_limit(self, num_bytes: int, freed: int = 0) -> None:
        """Raise NoRoom where ``num_bytes`` more do not fit, once ``freed`` are gone."""
        used = used_bytes(self.path)
        if used - freed + num_bytes > self.limit_bytes:
            words = f"the node keeps at most {in_mib(self.limit_bytes)} of states in memory ({LIMIT})"
            raise NoRoom(f"{in_mib(num_bytes)} more do not fit beside {in_mib(used - freed)}: {words}")

    def free(self, run: str) -> None:
        if RUN.fullmatch(run):
            remove_tree(self.path / run)

    def remove(self) -> None:
        remove_tree(self.path)


@dataclass(frozen=True, slots=True)
class RunMemory:
    path: Path

    @property
    def own(self) -> Path:
        return self.path / "own"

    @property
    def buffers(self) -> Path:
        return self.own / "buffers"

    @property
    def peer(self) -> Path:
        return self.path / "peer"

    def places(self, name: str) -> Iterator[Path]:
        """Yield the folders that may hold parts of the state with this name."""
        yield from (side / name for side in (self.own, self.peer) if (side / name).is_dir())


def open_memory(home: Path, environment: Mapping[str, str]) -> MemoryFolder:
    """Return the memory folder of the node with this home, made where it was not there. Raises NoMemoryFolder.

    Another user of the machine may have put something under its name: only a folder of our own is taken.
    """
    path = memory_path(home, environment)
    if not path.parent.is_dir():
        raise NoMemoryFolder(f"{path.parent} is no folder; {FOLDER} names one of a memory file system")
    try:
        with suppress(FileExistsError):  # which may be no folder, or not ours
            path.mkdir(mode=0o711)
        found = path.lstat()
    except OSError as error:
        raise NoMemoryFolder(f"{path} cannot be made: {error.strerror or error}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise NoMemoryFolder(f"{path} is no folder: remove it, and start the node again")
    if found.st_uid != os.getuid():
        raise NoMemoryFolder(f"{path} belongs to user {found.st_uid}, not to {os.getuid()}")
    path.chmod(0o711)  # ranks may be another user's, and pass through
    return MemoryFolder(path, _limit_bytes(path.parent, environment))


def memory_path(home: Path, environment: Mapping[str, str]) -> Path:
    """Return where the states in memory of the node with this home are: nodes of one machine have one each."""
    base = Path(environment.get(FOLDER) or SHARED_MEMORY).absolute()
    name = hashlib.sha256(os.fspath(home.resolve()).encode()).hexdigest()[:12]
    return base / f"trainyard-{os.getuid()}-{name}"


def _limit_bytes(base: Path, environment: Mapping[str, str]) -> int:
    given = environment.get(LIMIT) or ""
    if given and not given.isdecimal():
        raise NoMemoryFolder(f"{LIMIT} is {given!r}, and is to be a whole number of bytes from 0")
    most = int(given) if given else int(SHARE_OF_MEMORY * psutil.virtual_memory().total)
    return min(most, shutil.disk_usage(base).total)


def run_folders(root: Path) -> list[str]:
    """Return the runs that have a folder below ``root``. Raises OSError."""
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        return [one.name for one in entries if RUN.fullmatch(one.name) and one.is_dir(follow_symlinks=False)]


def used_bytes(folder: Path) -> int:
    """Return what the files below take, each once however many names it has."""
    files: dict[int, int] = {}
    with suppress(OSError), HeldFolder.open(folder) as held:
        files = {found.st_ino: found.st_blocks * 512 for _, found in held.walk()}
    return sum(files.values())


def in_mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:,.1f} MiB"


class PeerNode(WireStruct):
    """The node that keeps copies of what this one takes: where it receives them."""

    node: str  # name
    address: str
    port: int


class ReplicaPlan(WireStruct, kw_only=True):
    """``folder`` is the run's own in the node's memory, empty where the node has none; ``problem`` says why."""

    node: str = ""  # name
    folder: str = ""
    limit_bytes: int = 0  # of the node's whole memory folder
    problem: str = ""
    # States of attempts above this fence may be gone on from; None: none.
    restore_above: int | None = None
    restore_until_step: int | None = None  # no state of a later step; None: of any
    attempt: str = ""
    key: str = ""  # of the attempt, for what is sent to the peer
    peer: PeerNode | None = None  # None: there is no other node that takes states

    @property
    def memory(self) -> RunMemory:
        return RunMemory(Path(self.folder))


def read_plan(environment: Mapping[str, str]) -> ReplicaPlan | None:
    """Return the plan; None where nobody gave one."""
    text = environment.get(PLAN)
    return decode(text, ReplicaPlan) if text else None
