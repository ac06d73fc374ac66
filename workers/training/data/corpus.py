"""Text that is on every machine: the sources of Python's standard library, as bytes, cached in one file per node."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import struct
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

SOURCES = ("python-stdlib",)
SKIPPED_FOLDERS = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
VALIDATION_SHARE = 0.05

# Magic, number of training bytes, number of validation bytes. A change of the layout or of the split changes the magic.
HEADER = struct.Struct("<8sQQ")
MAGIC = b"TYTEXT01"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Bytes to train on, bytes to validate on, from different files, and a digest over both that names them."""

    train: Bytes
    validation: Bytes
    digest: str


def load_corpus(source: str) -> Corpus:
    """Return the corpus ``source``, memory-mapped, building the node's cache file first where it is not there yet.

    Raises ValueError for an unknown source and PermissionError for a cache folder that another user could change.
    """
    if source not in SOURCES:
        raise ValueError(f"task.data.source is {source!r}; accepted are {', '.join(SOURCES)}")
    root = Path(sysconfig.get_path("stdlib"))
    paths = sorted(source_files(root))
    folder = cache_folder()
    pattern = f"{source}-{listing_digest(root, paths)}-*.bin"
    cached = next(folder.glob(pattern), None)
    if cached is None:
        with locked(folder / f".{source}.lock"):
            # Whoever held the lock before us has most likely built it.
            cached = next(folder.glob(pattern), None) or build_cache(folder, pattern, root, paths)
    return open_cache(cached)


def cache_folder() -> Path:
    """Return TRAINYARD_CACHE, by default a folder of this user under the temporary one, and make it, mode 0700."""
    given = os.environ.get("TRAINYARD_CACHE")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"trainyard-cache-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not given:
        # The name can be guessed and the temporary folder is everyone's: do not read what someone else laid there.
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(
                f"{folder} is not a folder that only user {os.getuid()} can write: set TRAINYARD_CACHE"
            )
    return folder


def source_files(root: Path) -> Iterator[str]:
    """Yield the paths, relative to ``root``, of all Python sources that are neither tests nor installed packages."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        relative = os.path.relpath(folder, root)
        yield from (os.path.normpath(os.path.join(relative, name)) for name in names if name.endswith(".py"))  # noqa: PTH118


def listing_digest(root: Path, paths: list[str]) -> str:
    """Return a name for this state of the sources without reading them: sizes and times of change are enough."""
    digest = hashlib.sha256(MAGIC + os.fsencode(root))
    for path in paths:
        found = os.stat(f"{root}/{path}")  # noqa: PTH116
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def is_validation(path: str) -> bool:
    """Say on which side of the split a file is: by its name's hash, so that it never moves when others come or go."""
    first = int.from_bytes(hashlib.sha256(os.fsencode(path)).digest()[:8], "big")
    return first < VALIDATION_SHARE * 2**64


def build_cache(folder: Path, pattern: str, root: Path, paths: list[str]) -> Path:
    """Write the cache file whose content digest takes the star's place in ``pattern``, and return it."""
    train = b"".join((root / path).read_bytes() for path in paths if not is_validation(path))
    validation = b"".join((root / path).read_bytes() for path in paths if is_validation(path))
    content = HEADER.pack(MAGIC, len(train), len(validation)) + train + validation
    target = folder / pattern.replace("*", hashlib.sha256(content).hexdigest()[:16])
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        # Before the rename: a file under its final name is whole, even after a power cut.
        os.fsync(file.fileno())
    temporary.rename(target)
    return target


def open_cache(path: Path) -> Corpus:
    with path.open("rb") as file:
        magic, num_train, num_validation = HEADER.unpack(file.read(HEADER.size))
    content = np.memmap(path, dtype=np.uint8, mode="r", offset=HEADER.size)
    if magic != MAGIC or len(content) != num_train + num_validation:
        raise ValueError(f"{path} is not a whole corpus: delete it")
    return Corpus(content[:num_train], content[num_train:], digest=path.stem.rpartition("-")[2])


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on ``path`` among processes of this node; the kernel frees it when the holder dies."""
    with path.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield
