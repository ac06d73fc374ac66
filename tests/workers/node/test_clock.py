"""A node whose clock is wrong works by the server's time."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Valkey
from tests.workers.control import ControlledNode, until
from tests.workers.node.test_files import problems
from tests.workers.web import Site, serve_site


@pytest.fixture
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.mark.parametrize("hours", [-1, 24])
def test_a_node_whose_clock_is_off_takes_commands_and_sends_its_output_though_the_server_was_away_first(
    home: Path, valkey: Valkey, site: Site, python_without_torch: Path, hours: int
) -> None:
    python = with_clock(python_without_torch, hours * 3600)
    node = ControlledNode(home, valkey.url, server=site.url, python=python)
    site.key = node.key
    node.start()
    try:
        until(lambda: node.tick() or node.up())
        order = node.order("print('hello')")
        # Without a word in the down document: the command alone must do.
        until(lambda: node.tick() or node.nudge(order) or node.report(order))
        site.failures = 1
        script = "import os, pathlib; pathlib.Path(os.environ['TRAINYARD_OUTPUT'], 'result.txt').write_text('42')"
        order = node.order(script)
        node.launch(order)
        report = node.wait_for(order, "ended")
        assert abs(report["at"] - time.time() - hours * 3600) < 60, "its clock is not off"
        until(lambda: node.tick() or site.files)
        assert list(site.files.values()) == [b"42"]
        nothing_waits = {"problem": "", "num_refused": 0, "refused": {}}
        until(lambda: problems(node.up()["attempts"][order["attempt"]]["output"]) == nothing_waits)  # type: ignore[index]
    finally:
        node.close()


def with_clock(python: Path, ahead_s: int) -> Path:
    """Return an interpreter like ``python`` whose clock is off by so much."""
    folder = python.parent.parent
    copy = folder.with_name(f"{folder.name}-{secrets.token_hex(4)}")
    shutil.copytree(folder, copy, symlinks=True)
    (packages,) = copy.glob("lib/python*/site-packages")
    # The file may be read more than once.
    line = f"import time; vars(time).setdefault('real', time.time); time.time = lambda now=time.real: now() + {ahead_s}"
    (packages / "clock.pth").write_text(line + "\n")
    return copy / "bin" / "python"
