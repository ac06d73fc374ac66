from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.disks import disk_of_1_mb
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
    with disk_of_1_mb(tmp_path / "disk") as disk:
        yield disk
