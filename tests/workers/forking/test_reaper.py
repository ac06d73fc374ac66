"""The end of a supervisor, as the node reports it: with real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from trainyard.contract.orders import Order
from workers.attempt.folder import AttemptFolder
from workers.node.dead_supervisors import finish_dead

PROGRAM = """
import os, sys
from workers.attempt.documents import StartRequest
from workers.forking.zygote import become_reaper
from workers.sandbox.node import Isolation
folder, home = sys.argv[1:]
request = StartRequest(folder, home, Isolation(), "127.0.0.1", home, home)
become_reaper(request, notify=os.open(os.devnull, os.O_WRONLY), lifeline=os.open(os.devnull, os.O_RDONLY))
"""


def test_a_supervisor_that_fails_is_not_called_killed(tmp_path: Path) -> None:
    folder = AttemptFolder(tmp_path / "a")
    folder.create(Order(attempt="a", run="r", fence=1, node_name="one", num_ranks=1, spec={"task": {"script": "x.py"}}))
    never_joined = tmp_path / "home"
    never_joined.mkdir()
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder.path), str(never_joined)], timeout=60, check=False)
    reason = finish_dead(folder).reason
    assert reason is not None and reason.code == "supervisor_failed"
    assert reason.sentence == (
        "The supervisor on one ended with an error of its own, and its ranks with it: "
        "AssertionError: a node that has an order has joined"
    )
