from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runs import actions
from tests.cast import Cast
from tests.disks import disk_of_1_mb
from tests.trainyard.command import Ended, Trainyard
from trainyard.cli import main
from trainyard.sdk import process_run as sdk


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


@pytest.fixture
def trainyard(
    transactional_db: None,
    cast: Cast,
    live_server: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Trainyard:
    """``trainyard("runs", "--json")``: the command as the team mate, against a server on this machine."""
    _, secret = actions.create_token(actor=cast.mate, name="test")
    monkeypatch.setenv("TRAINYARD_URL", live_server.url)
    monkeypatch.setenv("TRAINYARD_TOKEN", secret)

    def run(*words: str) -> Ended:
        try:
            code = main(words)
        except SystemExit as error:  # argparse leaves this way
            code = int(error.code or 0)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run
