"""Check that a folder takes files, by writing one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from trainyard.contract.machines import FolderState
from trainyard.spooling.plain_files import create_plain

PROBE_BYTES = 4096


def check_folder(path: Path) -> FolderState:
    """Return whether files can be written into ``path``, and how much room there is. A folder that is not there yet is
    judged by the nearest one above it, in which it would be made."""
    state = FolderState(path=str(path))
    there = path
    while not _exists(there) and there != there.parent:
        there = there.parent
    try:
        if not there.is_dir():
            what = "is a file, not a folder" if there == path else f"cannot be made: {there} is a file"
            state.problem = what
            return state
        usage = shutil.disk_usage(there)
        state.free_bytes, state.total_bytes = usage.free, usage.total
        _try_to_write(there)
    except OSError as error:
        state.problem = f"takes no files: {(error.strerror or str(error)).lower()}"
    return state


def _exists(path: Path) -> bool:
    """Return whether there is anything, also where what is above ``path`` is a file."""
    try:
        return path.exists()
    except OSError:
        return True


def _try_to_write(folder: Path) -> None:
    probe = folder / f".trainyard-preflight.{os.getpid()}"
    try:
        with create_plain(probe) as file:
            file.write(bytes(PROBE_BYTES))
    finally:
        probe.unlink(missing_ok=True)
