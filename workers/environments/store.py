"""Store of a node's environments, and the locks that say who uses or builds one.

``HOME/environments/PROJECT/`` has for each environment DIGEST.lock and DIGEST.json, which are the node's own, and
``store/``, which belongs to the user of the project's ranks: the environments, what installers have downloaded (next to
them, so that files are hard links) and other versions of Python. No project meets another's.

A lock is the kernel's (``flock``): it goes with the process that holds it, however that ends. Who uses an environment
holds it together with others, who builds or deletes one holds it alone. An environment without a DIGEST.json was not
built to its end.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog

from trainyard.contract.base import WireStruct
from trainyard.grouping import grouped
from trainyard.spooling.held_folder import HeldFolder, remove_tree
from workers.attempt.documents import read_document, write_document
from workers.containers.podman import remove_image
from workers.environments.documents import NodeTools

log = structlog.get_logger(__name__)

TOOLS = "tools.json"
BUILDERS_LOCK = "builders.lock"  # held together by all builds of a project; alone by who empties the downloads
DOWNLOADS = "downloads"


class EnvironmentRecord(WireStruct, kw_only=True):
    """An environment that was built to its end: DIGEST.json."""

    kind: str
    python: str = ""  # version
    num_packages: int = 0
    bytes: int = 0
    built_at: float = 0.0  # Unix seconds
    seconds: float = 0.0  # that building took
    image: str = ""  # id, of a container
    image_digest: str = ""  # under which a registry has it
    key: str = ""  # of the first spec that asked for it: `environment_key`
    image_names: tuple[str, ...] = ()  # that Podman gave the image for us; none: it lay on the node before


class FileLock:
    """A lock of the kernel on a file that may be deleted while nobody holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    def take(self, *, alone: bool) -> bool:
        """Take the lock, or change how it is held. False where somebody is in the way. A change is no single step:
        look again at what the lock protects."""
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        while True:
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self._is_current():
                return True
            self.release()

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def touch(self) -> None:
        """Record that what it protects was used now."""
        os.utime(self._descriptor)

    def _is_current(self) -> bool:
        """Return whether the file still has its name: its last holder may have deleted it."""
        own = os.fstat(self._descriptor)
        try:
            named = self.path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)


class EnvironmentPlace(NamedTuple):
    folder: Path  # of the project
    digest: str

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def path(self) -> Path:
        return self.store / self.digest

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.digest}.lock"

    @property
    def record(self) -> EnvironmentRecord | None:
        return read_document(self._record_path, EnvironmentRecord)

    @property
    def last_used_at(self) -> float:
        try:
            return self.lock.stat().st_mtime
        except OSError:
            return 0.0

    @property
    def _record_path(self) -> Path:
        return self.folder / f"{self.digest}.json"

    def write_record(self, record: EnvironmentRecord) -> None:
        write_document(self._record_path, record)

    def delete(self) -> None:
        """Delete all of it; the caller holds its lock alone. The record goes first: half of an environment is none."""
        self._record_path.unlink(missing_ok=True)
        remove_tree(self.path)
        self.lock.unlink(missing_ok=True)


class EnvironmentStore:
    def __init__(self, home: Path) -> None:
        self.root = home / "environments"

    def tools(self) -> NodeTools:
        return read_document(self.root / TOOLS, NodeTools) or NodeTools()

    def record_tools(self, tools: NodeTools) -> None:
        self.root.mkdir(mode=0o711, parents=True, exist_ok=True)
        write_document(self.root / TOOLS, tools)

    def place(self, project: str, digest: str) -> EnvironmentPlace:
        folder = self.root / (re.sub(r"[^A-Za-z0-9_-]", "", project)[:60] or "none")
        (folder / "store").mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o711)
        return EnvironmentPlace(folder, digest)

    def places(self) -> Iterator[EnvironmentPlace]:
        for path in sorted(self.root.glob("*/*.lock")):
            if path.name != BUILDERS_LOCK:
                yield EnvironmentPlace(path.parent, path.stem)

    def remove_unfinished(self) -> list[str]:
        """Delete what builders left that were killed. Returns the digests."""
        removed = []
        for place in self.places():
            if place.record is None and delete_unused(place):
                log.info("environment.unfinished", digest=place.digest)
                removed.append(place.digest)
        return removed

    def make_room(self, limit_bytes: int) -> list[str]:
        """Delete the environments that were used least recently until all take at most ``limit_bytes``, each counted
        as if it shared no file with another. Those in use stay. Returns the digests of what went."""
        records = {place: record for place in self.places() if (record := place.record) is not None}
        sizes = {place: 0 if record.image else record.bytes for place, record in records.items()}
        by_use = sorted(records, key=lambda one: one.last_used_at)
        # An image counts once, for the project that used it last.
        images = grouped((records[place].image, place) for place in by_use if records[place].image)
        for places in images.values():
            sizes[places[-1]] = records[places[-1]].bytes
        total, removed = sum(sizes.values()), []
        for place in sorted(sizes, key=lambda one: one.last_used_at):
            if total <= limit_bytes:
                break
            if delete_unused(place):
                log.info("environment.evicted", digest=place.digest, bytes=sizes[place])
                total -= sizes[place]
                removed.append(place.digest)
                if image := records[place].image:
                    self._take_leave(image, [(one, records[one]) for one in images[image]], place)
        if removed:
            for folder in {place.folder for place in sizes}:  # what was evicted would else stay there
                _alone(folder / BUILDERS_LOCK, partial(remove_tree, folder / "store" / DOWNLOADS))
        return removed

    def _take_leave(
        self, image: str, users: list[tuple[EnvironmentPlace, EnvironmentRecord]], gone: EnvironmentPlace
    ) -> None:
        """Remove the image with the last of its users. Another one hands on the names that were given for it."""
        names = tuple(sorted({name for _, record in users for name in record.image_names}))
        last, record = users[-1]
        if gone == last and not names and record.image_digest:  # of a registry, not of an archive
            log.info("image.kept", image=image[:12], why="it is the machine's own")
        elif gone == last:
            remove_image(self.tools().podman, image, names)
        elif last.record is not None:
            record.image_names = names
            last.write_record(record)


def delete_unused(place: EnvironmentPlace) -> bool:
    """Delete an environment that nobody uses or builds. Returns whether it went."""
    return _alone(place.lock, place.delete)


def _alone(path: Path, delete: Callable[[], None]) -> bool:
    """Delete unless somebody else has the lock at ``path``. Returns whether that was done."""
    lock = FileLock(path)
    try:
        is_free = lock.take(alone=True)
        if is_free:
            delete()
        return is_free
    finally:
        lock.release()


def size_of(folder: Path) -> int:
    """Return the bytes of all files below the folder, each counted once."""
    sizes: dict[int, int] = {}  # by inode
    with contextlib.suppress(OSError), HeldFolder.open(folder) as held:
        for _, found in held.walk():
            sizes[found.st_ino] = found.st_size
    return sum(sizes.values())
