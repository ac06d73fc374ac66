"""The output folders of runs on the server: plain files under one root, and no way out of it."""

from __future__ import annotations

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from runs.places import output_folder

MAX_FILES = 10_000
MAX_PATH = 500


def listing(run_id: str) -> list[dict[str, Any]]:
    """Return path, size and time of each file, by path."""
    root = output_folder(run_id)
    found = []
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
        target = _inside(run_id, path)
    except ValueError:
        return None
    return target if target.is_file() else None


def store(run_id: str, path: str, data: bytes) -> None:
    """Write the file whole or not at all. Raises ValueError for a path that is not plainly inside the folder."""
    target = _inside(run_id, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".partial-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).replace(target)
    except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
        raise ValueError(f"{path!r} is a file and a folder at once") from error


def _inside(run_id: str, path: str) -> Path:
    parts = PurePosixPath(path).parts
    is_plain = parts and not path.startswith("/") and "\0" not in path and len(path) <= MAX_PATH
    if not is_plain or any(part in (".", "..") or part.startswith(".partial-") or len(part) > 200 for part in parts):
        raise ValueError(f"{path[:100]!r} is no path inside the output folder")
    root = output_folder(run_id).resolve()
    target = root.joinpath(*parts).resolve()
    if not target.is_relative_to(root) or target == root:  # a link on the way
        raise ValueError(f"{path[:100]!r} leads out of the output folder")
    return target
