"""Removal of checkpoints that are not kept, and of what an attempt that ended in mid-save has left behind."""

from __future__ import annotations

import shutil
from collections.abc import Set
from pathlib import Path

from workers.training.checkpoints.manifest import MANIFEST
from workers.training.checkpoints.store import DELETED, TEMPORARY, Mark, find
from workers.training.files import sync


def retire(folder: Path, keep: int, damaged: Set[Mark]) -> list[Mark]:
    """Take out of use what is damaged and all but the newest ``keep``; return their marks. One stays in any case.

    They are renamed first: one that is half removed must not look like one that is damaged.
    """
    # A folder without a manifest is no checkpoint, whoever put it there: it takes no place of one, and stays.
    whole = [mark for mark in find(folder) if mark not in damaged and (folder / mark.name / MANIFEST).is_file()]
    gone = [mark for mark in find(folder) if mark in damaged] + whole[: -max(1, keep)]
    for mark in gone:
        (folder / mark.name).rename(folder / mark.deleted_name)
    if gone:
        sync(folder)
    return gone


def retired(folder: Path) -> list[Mark]:
    """Return the checkpoints that an earlier attempt took out of use and could neither remove nor report."""
    return find(folder, DELETED)


def sweep(folder: Path, current: Mark) -> None:
    """Remove what earlier saves have begun and not finished. Those of later fences are not ours to touch."""
    for mark in find(folder, TEMPORARY):
        if mark < current:
            remove(folder / mark.temporary_name)


def remove(path: Path) -> None:
    """Remove a folder that is out of use; what cannot be removed now is tried again by the next attempt."""
    shutil.rmtree(path, ignore_errors=True)
