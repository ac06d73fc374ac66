"""Cache of a node: what it makes of data once and every later rank maps into memory. Folders under one, built under a
lock.

An entry is a folder that is complete from the moment it has its name: built beside, synced, renamed. Each has a lock
file that is never removed. Who builds or removes the entry holds it alone; who uses it holds it with others until the
process ends, also one that is killed, for the kernel gives locks back. So eviction never takes what is in use.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainyard.contract.base import JsonObject
from trainyard.formats.figures import size
from trainyard.spooling.plain_files import sync
from workers.replicas.folders import used_bytes
from workers.training.data.problems import NodeDataProblem

FACTS = "facts.json"
SIZES = ".sizes.json"  # of all other files: an entry that something has cut short since is built anew
LARGEST_LIMIT_BYTES = 100 * 2**30
LOOK_AGAIN_S = 0.005
MAX_TRIES = 10  # between a build and the use of it another process may evict it; ten times in a row it does not
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Build = Callable[[Path], None]
Facts = JsonObject  # what is known of an entry, as JSON: each kind of entry has facts of its own

# The locks on what this process uses, by the entry's path: descriptors that are open until it ends.
_held: dict[Path, int] = {}


def cache_folder() -> Path:
    """Return TRAINYARD_CACHE, by default a folder of this user under the temporary one, and make it, mode 0700."""
    given = os.environ.get("TRAINYARD_CACHE")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"trainyard-cache-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NodeDataProblem(
            f"TRAINYARD_CACHE is {folder}, which cannot be made ({error.strerror}): name another"
        ) from None
    if not given:
        # The name can be guessed and the temporary folder is everyone's: do not read what someone else laid there.
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise NodeDataProblem(f"{folder} is no folder that only user {os.getuid()} can write: set TRAINYARD_CACHE")
    return folder


def cached(key: str, build: Build, *, needed_bytes: int = 0) -> Path:
    """Return the folder of what ``key`` names; where it is not there yet, ``build`` fills an empty one that becomes it.

    ``key`` is any text that says all that the content depends on. One process of a node builds, the others wait.
    ``build`` writes with ordinary writes (``NpyWriter``, ``np.save``), never through a memory map: on a full disk that
    would kill the process, where a write raises.
    ``needed_bytes`` is what the build will take, where that is known: it is then refused before it starts.
    Raises NodeDataProblem where the disk, or TRAINYARD_CACHE_LIMIT_BYTES, has no room, and whatever ``build`` raises.
    """
    folder = cache_folder()
    entry = folder / entry_name(key)
    num_built = 0
    while num_built < MAX_TRIES:
        if _use(entry):  # waits while another process builds
            return entry
        with _locked(entry) as descriptor:
            # Not to be waited for: who holds it may have built it since we looked, and uses it until its end.
            if not _is_alone(descriptor):
                time.sleep(LOOK_AGAIN_S)
            elif not is_whole(entry):
                _build(entry, build, needed_bytes)
                num_built += 1
    words = "other processes evict it each time that it is built; raise TRAINYARD_CACHE_LIMIT_BYTES"
    raise NodeDataProblem(f"{folder} has no room to keep {key[:200]}: {words}")


def release(entry: Path) -> None:
    """Let go of an entry that this process used and does not need any more."""
    if entry in _held:
        os.close(_held.pop(entry))


def entry_name(key: str) -> str:
    """Return the folder's name for ``key``: some of it for people to read, and a digest of all."""
    readable = re.sub(r"[^a-z0-9]+", "-", key.lower())[:48].strip("-")
    return f"{readable}-{hashlib.sha256(key.encode(errors='surrogateescape')).hexdigest()[:16]}"


def limit_bytes(folder: Path) -> int:
    """Return TRAINYARD_CACHE_LIMIT_BYTES, by default a tenth of the disk, at most 100 GiB."""
    given = os.environ.get("TRAINYARD_CACHE_LIMIT_BYTES")
    if not given:
        return min(shutil.disk_usage(folder).total // 10, LARGEST_LIMIT_BYTES)
    if not given.isdecimal():
        raise NodeDataProblem(f"TRAINYARD_CACHE_LIMIT_BYTES is {given!r}: it is a number of bytes")
    return int(given)


def make_room(folder: Path, num_bytes: int) -> None:
    """Evict what is not in use, least recently used first, until ``num_bytes`` more fit into the limit and the disk.

    Raises NodeDataProblem where they do not.
    """
    limit, entries = limit_bytes(folder), _entries(folder)
    while True:
        taken, (total, _, free) = _taken_bytes(folder), shutil.disk_usage(folder)
        if taken + num_bytes <= limit and num_bytes <= free:
            return
        # Nothing is evicted for data that would not fit into an empty cache.
        if num_bytes > min(limit, total) or not _evict_first(entries):
            break
    if taken + num_bytes > limit:
        raise NodeDataProblem(
            f"the cache {folder} would take {size(taken + num_bytes)} with what this run needs, and "
            f"its limit is {size(limit)}; raise TRAINYARD_CACHE_LIMIT_BYTES, or take less data"
        )
    raise no_space(folder, num_bytes)


def no_space(folder: Path, needed: int) -> NodeDataProblem:
    free = shutil.disk_usage(folder).free
    return NodeDataProblem(
        f"the disk of the cache {folder} is full: {size(needed)} or more are needed and {size(free)} are free; "
        "make room, or let TRAINYARD_CACHE name a folder of another disk"
    )


def write_facts(folder: Path, facts: Facts) -> None:
    """Keep what is known of the entry beside its arrays."""
    (folder / FACTS).write_text(json.dumps(facts, ensure_ascii=False))


def read_facts(folder: Path) -> Facts:
    facts: Facts = json.loads((folder / FACTS).read_text())
    return facts


def is_whole(entry: Path) -> bool:
    """Say whether the entry is there with all its files as long as they were."""
    with suppress(FileNotFoundError, ValueError):
        sizes = json.loads((entry / SIZES).read_text())
        return all((entry / name).stat().st_size == num_bytes for name, num_bytes in sizes.items())
    return False


def _use(entry: Path) -> bool:
    """Lock the entry for this process's use, and note the time, unless it is not there."""
    if entry not in _held:
        with _locked(entry) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if not is_whole(entry):
                return False
            _held[entry] = os.dup(descriptor)  # one lock: it stays as long as one of the two is open
    os.utime(entry)
    return True


def _is_alone(descriptor: int) -> bool:
    """Take the lock alone, if nobody holds it."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _build(entry: Path, build: Build, needed_bytes: int) -> None:
    """Build the entry, whose lock this process holds alone; once more where that fills the disk and others can go."""
    folder = entry.parent
    make_room(folder, needed_bytes)
    while True:
        _sweep(entry)
        temporary = folder / f".{entry.name}.{os.getpid()}.tmp"
        try:
            _fill(temporary, build)
            make_room(folder, 0)
            temporary.rename(entry)
            sync(folder)
            return
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            needed = max(needed_bytes, used_bytes(temporary))
            shutil.rmtree(temporary, ignore_errors=True)
            if not _evict_first(_entries(folder)):
                raise no_space(folder, needed) from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _fill(temporary: Path, build: Build) -> None:
    """Let ``build`` fill a new folder; return once all of it has reached the disk."""
    temporary.mkdir()
    build(temporary)
    sizes = {str(path.relative_to(temporary)): path.stat().st_size for path in _files(temporary)}
    (temporary / SIZES).write_text(json.dumps(sizes))
    for path in _files(temporary):
        sync(path)
    sync(temporary)


def _sweep(entry: Path) -> bool:
    """Remove, under its lock, the entry and what builders left that were killed; return whether there was any."""
    found = [path for path in (entry, *entry.parent.glob(f".{entry.name}.*.tmp")) if path.exists()]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return bool(found)


def _taken_bytes(folder: Path) -> int:
    """Return what all entries take, with those that are being built. The folder may hold more than ours."""
    names = {entry.name for entry in _entries(folder)}
    return sum(used_bytes(path) for path in folder.iterdir() if path.name in names or path.suffix == ".tmp")


def _entries(folder: Path) -> list[Path]:
    """Return the entries that there are or, from a build that was killed, were to be: least recently used first."""
    entries = [path.with_name(path.name[1:].removesuffix(".lock")) for path in folder.glob(".*.lock")]
    return sorted(entries, key=_used_at)


def _used_at(entry: Path) -> float:
    with suppress(FileNotFoundError):
        return entry.stat().st_mtime
    return 0.0


def _evict_first(entries: list[Path]) -> bool:
    """Take from ``entries`` until one of them could be evicted; return whether one was."""
    while entries:
        if _evict(entries.pop(0)):
            return True
    return False


def _evict(entry: Path) -> bool:
    """Remove the entry, unless somebody uses or builds it; return whether anything was removed."""
    with _locked(entry) as descriptor:
        if not _is_alone(descriptor):
            return False
        if entry.exists():
            # A name under which nobody looks, so that what is half removed is never used.
            entry.rename(entry.with_name(f".{entry.name}.{os.getpid()}.tmp"))
        return _sweep(entry)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


@contextmanager
def _locked(entry: Path) -> Iterator[int]:
    """Open the entry's lock file, for flock: unlike lockf it conflicts also between two threads of one process."""
    try:
        descriptor = os.open(entry.with_name(f".{entry.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise no_space(entry.parent, 1) from None
        raise NodeDataProblem(f"the cache {entry.parent} cannot be written: {error.strerror}") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
