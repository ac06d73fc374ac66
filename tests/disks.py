"""A real disk that a test may fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def disk_of_1_mb(folder: Path) -> Iterator[Path]:
    """Mount one at the folder, which is made for it. Skips the test where that is not allowed."""
    with disk(folder, mb=1) as mounted:
        yield mounted


@contextmanager
def disk(folder: Path, *, mb: int) -> Iterator[Path]:
    """Mount a disk of so many megabytes at the folder. Skips the test where that is not allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mb}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a disk of its own can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left; return the file that does, to be deleted."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(4096))
    return filler
