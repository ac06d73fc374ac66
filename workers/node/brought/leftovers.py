"""Folders of nodes that died before they could leave: the next node that an engine brings there removes them.

The folders of all machines may lie on one shared file system, where no process can see whether those of another
machine live. So each living node touches a file in its own folder now and then. Only a folder with such a file, long
untouched, is removed: what the node of another kind keeps is not ours.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import structlog

from trainyard.spooling.held_folder import remove_tree

log = structlog.get_logger(__name__)

SHOW_EVERY_S = 60.0
KEPT_S = 3 * 86_400.0  # a system may suspend a job for a day, and a person may want what was not sent
MOST = 20  # in one sweep: removing many files may take long on a shared file system
PREFIX = ".dead-"  # of a folder that is being removed


class KeepAlive:
    """The file by which other nodes see that this one lives."""

    def __init__(self, home: Path) -> None:
        self._path = alive_file(home)
        self._due_at = 0.0

    def show(self) -> None:
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + SHOW_EVERY_S
        try:
            self._path.touch()
        except OSError as error:  # a full disk; a folder that a person has removed
            log.warning("node.alive_unwritten", path=str(self._path), error=str(error))


def alive_file(home: Path) -> Path:
    return home / "alive"


def sweep(home: Path) -> int:
    """Remove what dead nodes left beside the folder ``home``; return how many folders went. Nodes that start together
    may do so at once: whoever renames a folder removes it."""
    try:
        alive_file(home).touch()
        now = alive_file(home).stat().st_mtime  # by the clock of the file system, as all others
        found = list(home.parent.iterdir())
    except OSError as error:
        log.warning("leftovers.unread", path=str(home.parent), error=str(error))
        return 0
    number = 0
    for folder in _dead(found, home, now):
        remove_tree(folder)
        number += 1
        if number == MOST:
            break
    if number:
        log.info("leftovers.removed", folders=number, path=str(home.parent))
    return number


def _dead(found: list[Path], home: Path, now: float) -> Iterator[Path]:
    """Yield the folders to remove, under the name that says so."""
    for folder in found:
        with suppress(OSError):  # another node was faster
            if folder == home or folder.is_symlink() or not folder.is_dir():
                continue
            if folder.name.startswith(PREFIX):  # a sweep that was killed
                yield folder
            elif now - alive_file(folder).stat().st_mtime > KEPT_S:
                yield folder.rename(folder.with_name(f"{PREFIX}{uuid.uuid4().hex}"))
