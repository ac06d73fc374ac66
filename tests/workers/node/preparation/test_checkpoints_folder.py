"""A node whose folder of checkpoints is none refuses an attempt before any rank exists."""

from __future__ import annotations

from pathlib import Path

from tests.servers import Valkey
from tests.workers.control import ControlledNode


def test_a_folder_of_checkpoints_that_is_a_file_is_refused(
    home: Path, valkey: Valkey, python_without_torch: Path
) -> None:
    node = ControlledNode(home, valkey.url, python=python_without_torch)
    (node.home / "checkpoints").write_text("in the way")
    node.start()
    try:
        order = node.order("print('never')\n")
        node.nudge(order)
        node.say(order)
        report = node.wait_for(order, "refused")
    finally:
        node.close()
    assert report["reason"]["code"] == "checkpoints_unusable"
    assert report["reason"]["sentence"] == (
        f"The folder of checkpoints, {node.home / 'checkpoints'}, is a file, not a folder."
    )
