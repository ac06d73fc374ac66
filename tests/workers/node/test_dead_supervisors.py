"""Supervisors that live and do not go on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.workers.attempt.test_documents import ENDED, PREVIOUS
from tests.workers.control import until
from workers.node import dead_supervisors
from workers.node.attempts import Attempts
from workers.node.dead_supervisors import Standstills
from workers.transport.node_config import NodeConfig

HOLDS = """
import os, signal, sys
from pathlib import Path
from workers.attempt.folder import AttemptFolder
lock = AttemptFolder(Path(sys.argv[1])).take_lock()
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_one_that_was_stopped_before_the_node_worker_began_to_look_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_supervisors, "STOPPED_LIMIT_S", 1.0)
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        try:
            os.kill(supervisor.pid, signal.SIGSTOP)
            standstills = Standstills()

            def is_ended() -> bool:
                standstills.look({"a": supervisor.pid}, may_end=lambda _: True)
                return supervisor.poll() is not None

            until(is_ended, 10.0)
        finally:
            supervisor.kill()
    assert standstills.killed == {"a": "supervisor_stopped"}


def test_one_that_is_ended_as_it_ships_is_reported_as_stopped_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_supervisors, "STOPPED_AFTER_S", 0.2)
    monkeypatch.setattr(dead_supervisors, "STOPPED_LIMIT_S", 1.0)
    home = Path(shutil.copytree(PREVIOUS, tmp_path / "home"))
    config = NodeConfig("http://127.0.0.1:9", "n1", "one", "key", "unix:///x", "local")
    idle = SimpleNamespace(is_due=lambda *_, **__: False, is_live_due=lambda _: False)
    attempts = Attempts(config, home, address="127.0.0.1", zygote=idle, source=idle, finished=idle)  # type: ignore[arg-type]
    attempts.adopt()
    command = [sys.executable, "-c", HOLDS, str(home / "attempts" / ENDED)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as supervisor:
        try:
            assert supervisor.stdout is not None and supervisor.stdout.readline() == b"held\n"

            def is_stopped() -> bool:
                attempts.watch()
                return attempts.listed()[ENDED].is_stopped

            until(is_stopped, 10.0)
            until(lambda: not is_stopped(), 10.0)
        finally:
            supervisor.kill()
