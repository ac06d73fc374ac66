"""A snapshot that lies in a file in memory: taking it is one copy, and it outlives the process. A manifest commits
it."""

import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from trainyard.spooling.plain_files import write_whole
from workers.replicas.folders import RunMemory
from workers.training.checkpoints.manifest import MANIFEST, StoredFile
from workers.training.checkpoints.snapshot import Snapshot
from workers.training.checkpoints.store import Mark, find

CHUNK_BYTES = 4 << 20  # hashed without the interpreter's lock, so that training goes on meanwhile
BUFFER = re.compile(r"rank-\d{1,9}\.fence-(\d{1,18})\.[a-z]")


@dataclass(slots=True)
class MemorySnapshot(Snapshot):
    """One of a rank's two buffers. ``mark`` is the state that it holds; ``link`` is the name of that part."""

    path: Path = Path()
    refuse_beyond_limit: Callable[[int, int], None] = lambda num_bytes, freed: None
    mark: Mark | None = None
    link: Path | None = None

    def name_part(self, mark: Mark, link: Path) -> None:
        """Give the file its name in the folder of a state."""
        link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        os.link(self.path, link)
        self.mark, self.link = mark, link

    def withdraw(self) -> None:
        """Take the name away: what the file holds is about to change."""
        if self.link is not None:
            self.link.unlink(missing_ok=True)
            with suppress(OSError):  # others have parts there
                self.link.parent.rmdir()
        self.mark = self.link = None

    def digest(self) -> StoredFile:
        digest = hashlib.sha256(self.header)
        data = self.data
        for start in range(0, len(data), CHUNK_BYTES):
            digest.update(data[start : start + CHUNK_BYTES])
        return StoredFile(len(self.header) + len(data), digest.hexdigest())

    def _allocate(self, num_bytes: int) -> torch.Tensor:
        """Lay the file out. Raises NoRoom and OSError: what does not fit is refused here, and never in mid-copy."""
        size = len(self.header) + num_bytes
        self.refuse_beyond_limit(size, self.path.stat().st_size if self.path.exists() else 0)
        memory = map_new_file(self.path, size)
        memory[: len(self.header)] = self.header
        if num_bytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        return torch.frombuffer(memory, dtype=torch.uint8, offset=len(self.header), count=num_bytes)


def map_new_file(path: Path, num_bytes: int) -> mmap.mmap:
    """Return a new file of that size, mapped into memory. Raises OSError."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, num_bytes)  # a page that is not to be had later would end the rank
        return mmap.mmap(descriptor, num_bytes)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


# Commit of a state in memory: its manifest is laid down last, and then the states before it go.


def commit(memory: RunMemory, mark: Mark, manifest: str) -> None:
    """Let the state count on this node, and remove what ranks here took before."""
    lay_down(memory.own / mark.name, manifest)
    for older in find(memory.own):
        if older < mark:
            shutil.rmtree(memory.own / older.name, ignore_errors=True)
    for path in memory.buffers.iterdir():
        found = BUFFER.fullmatch(path.name)
        if found and int(found[1]) < mark.fence:
            path.unlink(missing_ok=True)


def lay_down(folder: Path, manifest: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(folder / MANIFEST, lambda temporary: temporary.write_text(manifest))
