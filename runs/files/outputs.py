"""The output folders of runs on the server: plain files under one root, and no way out of it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypedDict

from runs.files.paths import output_folder
from trainyard.contract.limits import MAX_PATH

MAX_FILES = 10_000
MAX_PART_BYTES = 200
MAX_FILE_BYTES = 2 * 1024**3
CHUNK_BYTES = 1024 * 1024


class TooLarge(ValueError):
    """The file is larger than the server keeps."""


class OutputFile(TypedDict):
    path: str
    size_bytes: int
    modified_at: str


def listing(run_id: str) -> list[OutputFile]:
    """Return path, size and time of each file, by path."""
    root = output_folder(run_id)
    found: list[OutputFile] = []
    for folder, names, files in os.walk(root):  # does not follow links
        names.sort()
        for name in sorted(files):
            path = Path(folder) / name
            if path.is_symlink() or name.startswith(".partial-"):
                continue
            stat = path.stat()
            at = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat().replace("+00:00", "Z")
            found.append({"path": path.relative_to(root).as_posix(), "size_bytes": stat.st_size, "modified_at": at})
            if len(found) == MAX_FILES:
                return found
    return found


def find(run_id: str, path: str) -> Path | None:
    """Return the file, or None where there is none inside the folder."""
    try:
        target = inside(run_id, path)
    except ValueError:
        return None
    return target if target.is_file() else None


def store(run_id: str, path: str, read: Callable[[int], bytes], sha256: str) -> None:
    """Write what ``read`` gives whole or not at all.

    Raises TooLarge, and ValueError for another content than ``sha256`` says or a path not plainly inside the folder.
    """
    target = inside(run_id, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                _copy(read, file, sha256)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise ValueError(f"{path!r} is a file and a folder at once") from error


def _copy(read: Callable[[int], bytes], file: BinaryIO, sha256: str) -> None:
    digest, size = hashlib.sha256(), 0
    while part := read(CHUNK_BYTES):
        size += len(part)
        if size > MAX_FILE_BYTES:
            raise TooLarge(f"A file has at most {MAX_FILE_BYTES:,} bytes.")
        digest.update(part)
        file.write(part)
    if digest.hexdigest() != sha256:
        raise ValueError("the body is not the one that was sealed")


def put(run_id: str, path: str, file: Path) -> None:
    """Move a whole file to its place. Raises ValueError where a folder stands there, or a file on the way."""
    target = inside(run_id, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.replace(target)
    except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise ValueError(f"{path!r} is a file and a folder at once") from error


def inside(run_id: str, path: str) -> Path:
    """Return where the path leads. Raises ValueError for one that is not plainly inside the output folder."""
    parts = PurePosixPath(path).parts
    is_plain = parts and not path.startswith("/") and "\0" not in path and len(path) <= MAX_PATH
    if not is_plain or any(
        part in (".", "..") or part.startswith(".partial-") or len(os.fsencode(part)) > MAX_PART_BYTES for part in parts
    ):
        raise ValueError(f"{path[:100]!r} is no path inside the output folder")
    root = output_folder(run_id).resolve()
    target = root.joinpath(*parts).resolve()
    if not target.is_relative_to(root) or target == root:  # a link on the way
        raise ValueError(f"{path[:100]!r} leads out of the output folder")
    return target
