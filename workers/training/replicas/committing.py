"""Commit of a state in memory: its manifest is laid down last, and then the states before it go."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from workers.replicas.folders import RunMemory
from workers.training.checkpoints.manifest import MANIFEST
from workers.training.checkpoints.store import Mark, find

BUFFER = re.compile(r"rank-\d{1,9}\.fence-(\d{1,18})\.[a-z]")


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
    temporary = folder / f".{MANIFEST}"
    temporary.write_text(manifest)
    temporary.rename(folder / MANIFEST)
