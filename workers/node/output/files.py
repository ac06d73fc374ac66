"""What lies in an attempt's folders: files, links that lead to files inside, and what cannot be sent, in words."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from workers.attempt.documents import Stamp

MAX_FILES = 10_000
LEFT_OUT = frozenset({"__pycache__", ".git", ".venv", ".trainyard", "trainyard-spool", ".ipynb_checkpoints"})


class OutputFile(NamedTuple):
    """One file, or a link to one inside the same folder, whose name is ``same_as`` then."""

    name: str
    path: Path
    stamp: Stamp  # size and time: as long as they stay, so does the content
    same_as: str = ""

    @property
    def size(self) -> int:
        return self.stamp[0]

    @property
    def key(self) -> str:
        """Names this version of the file for its upload."""
        return hashlib.sha256(f"{self.name}\0{self.stamp}".encode()).hexdigest()[:40]


class FolderContents(NamedTuple):
    entries: list[OutputFile]  # files first, then links
    left_out: dict[str, str]  # name -> why


def list_files(root: Path) -> FolderContents:
    """Return what the folder holds. No link is followed out of it."""
    files: list[OutputFile] = []
    links: list[OutputFile] = []
    left_out: dict[str, str] = {}
    for name, path in walk(root):
        if len(files) + len(links) >= MAX_FILES:
            left_out[name] = f"there are more than {MAX_FILES:,} files"
            break
        try:
            kind = path.lstat()
            if stat.S_ISREG(kind.st_mode):
                files.append(OutputFile(name, path, [kind.st_size, kind.st_mtime_ns]))
            elif stat.S_ISLNK(kind.st_mode):
                links += _of_link(root, name, path, left_out)
            else:
                left_out[name] = "it is no file"
        except OSError as error:  # it went meanwhile, or cannot be looked at
            left_out[name] = error.strerror or str(error)
    return FolderContents([*sorted(files), *sorted(links)], left_out)


def walk(root: Path, *, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, Path]]:
    """Yield name and path of everything below that is no folder; folders behind links are links."""
    for above, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in without)
        linked = [name for name in folders if Path(above, name).is_symlink()]
        for name in sorted({*names, *linked}):
            if name not in without:
                path = Path(above, name)
                yield path.relative_to(root).as_posix(), path


def _of_link(root: Path, name: str, path: Path, left_out: dict[str, str]) -> list[OutputFile]:
    """Return the files that a link stands for."""
    inside = root.resolve()
    target = path.resolve()
    if not target.is_relative_to(inside) or target == inside:
        left_out[name] = "it is a link that leads out of the folder"
    elif target.is_file():
        return [_link(name, path, target, inside)]
    elif target.is_dir() and not path.parent.resolve().is_relative_to(target):
        return [
            _link(f"{name}/{below}", found, found, inside)
            for below, found in walk(target)
            if found.is_file() and not found.is_symlink()
        ]
    else:
        left_out[name] = "it is a link to a folder that holds it" if target.is_dir() else "it is a link to nothing"
    return []


def _link(name: str, path: Path, target: Path, root: Path) -> OutputFile:
    facts = target.stat()
    return OutputFile(name, path, [facts.st_size, facts.st_mtime_ns], target.relative_to(root).as_posix())
