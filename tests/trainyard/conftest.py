from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard import sdk


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the SDK writes, as in a rank."""
    folder = tmp_path / "spool"
    monkeypatch.setenv("TRAINYARD_SPOOL", str(folder))
    yield folder
    if sdk._run is not None:
        sdk._run.finish()
        sdk._run = None


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a disk of its own can only be mounted by root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
