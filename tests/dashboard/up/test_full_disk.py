"""The disk that holds everything is full for a while: the same processes work again when there is room."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.disks import disk, fill
from tests.servers import short_folder
from tests.up_process import Up, new_home, wait_until


@pytest.fixture
def small_disk() -> Iterator[Path]:
    with short_folder("ty-full-") as folder, disk(folder / "disk", mb=80) as mounted:
        yield mounted


def health(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/api/v1/health", timeout=10) as response:
            return dict(json.load(response))
    except urllib.error.HTTPError as error:
        with error:
            return dict(json.load(error))


@pytest.mark.extended
def test_a_full_disk_ends_nothing_for_good(small_disk: Path) -> None:
    up = Up(new_home(small_disk), NODES="0")
    try:
        up.wait_until_ready()
        before = up.processes()
        filler = fill(small_disk)
        wait_until(lambda: not health(up.url)["disk"], "health says that the disk is full")
        assert health(up.url)["sentences"][0].startswith("The server's disk is full")
        wait_until(lambda: not health(up.url)["ingest"], "Valkey refuses to write")

        filler.unlink()

        wait_until(lambda: bool(health(up.url)["ready"]), "everything works again")
        assert up.processes() == before
    finally:
        up.close()
